// SPDX-License-Identifier: Apache-2.0
#include "server/store/commit_plan.h"

#include <algorithm>
#include <iterator>

#include "transport/brick/limits.h"

namespace brickfs {

Result<CommitPlan> CommitPlan::make(std::span<const CommitRange> ranges) {
  if (ranges.size() > limits::kRangesPerCommit) return Error(EINVAL, "too many ranges in a commit");
  CommitPlan plan;
  for (const CommitRange& range : ranges) {
    if (range.length_bytes == 0 || range.length_bytes - 1 > UINT64_MAX - range.address) {
      return Error(EINVAL, "an impossible range in a commit");
    }
    if (plan.rounds_.empty() || range.after_previous) {
      plan.end_round();
      plan.rounds_.emplace_back();
    }
    plan.add({range.address, range.address + (range.length_bytes - 1)});
  }
  plan.end_round();
  return plan;
}

// What is new of it goes to the last round; each of named_ that it meets becomes one with it, so the work is bounded by
// what is named.
void CommitPlan::add(Bytes named) {
  Round& round = rounds_.back();
  Bytes whole = named;
  uint64_t next = named.first;  // not looked at yet
  bool done = false;
  auto at = named_.upper_bound(named.first);
  if (at != named_.begin() && (named.first == 0 || std::prev(at)->second >= named.first - 1)) --at;
  while (at != named_.end() && (at->first <= named.last || at->first - 1 == named.last)) {
    if (!done && at->first > next) round.push_back({next, std::min(at->first - 1, named.last)});
    done = done || at->second >= named.last;
    if (!done) next = std::max(next, at->second + 1);
    whole = {std::min(whole.first, at->first), std::max(whole.last, at->second)};
    at = named_.erase(at);
  }
  if (!done && next <= named.last) round.push_back({next, named.last});
  named_.emplace(whole.first, whole.last);
}

// Sorts it, and joins what touches.
void CommitPlan::end_round() {
  if (rounds_.empty()) return;
  Round& round = rounds_.back();
  std::ranges::sort(round, {}, &Bytes::first);
  Round joined;
  for (const Bytes& bytes : round) {
    if (!joined.empty() && joined.back().last + 1 == bytes.first) {
      joined.back().last = bytes.last;
    } else {
      joined.push_back(bytes);
    }
  }
  round = std::move(joined);
}

std::vector<BlockRange> CommitPlan::blocks() const {
  std::vector<BlockRange> blocks;
  for (const auto& [first, last] : named_) {
    BlockAddress start = block_of(first);
    if (!blocks.empty() && blocks.back().end() == block_after(start))
      start = block_after(start);  // the one before ends in it
    const BlockAddress end = block_of(last);
    if (start > end) continue;
    const uint64_t count = (raw(end) - raw(start)) / kBlockBytes + 1;
    if (!blocks.empty() && blocks.back().end() == start) {
      blocks.back().count += count;
    } else {
      blocks.push_back({start, count});
    }
  }
  return blocks;
}

std::vector<BlockAddress> CommitPlan::whole_blocks() const {
  std::vector<BlockAddress> whole;
  for (const auto& [first, last] : named_) {
    BlockAddress block = block_of(first);
    if (raw(block) < first) block = block_after(block);
    for (; raw(block) >= first && raw(block) <= last && last - raw(block) >= kBlockBytes - 1;
         block = block_after(block)) {
      whole.push_back(block);
    }
  }
  return whole;
}

}  // namespace brickfs
