// SPDX-License-Identifier: Apache-2.0
#include "fs/space/block_runs.h"

#include <iterator>

#include "transport/base/check.h"

namespace brickfs {

bool BlockRuns::contains_all(BlockRun run) const {
  const auto at = containing(run.first);
  return at != runs_.end() && at->first + at->second >= run.end();
}

bool BlockRuns::contains_any(BlockRun run) const {
  const auto next = run_from(run.first);
  return next.has_value() && next->first < run.end();
}

void BlockRuns::insert(BlockRun run) {
  CHECK(run.count > 0 && !contains_any(run));
  size_ += run.count;
  const auto after = runs_.find(run.end());
  if (after != runs_.end()) {
    run.count += after->second;
    runs_.erase(after);
  }
  const auto before = run.first > 0 ? containing(run.first - 1) : runs_.end();
  if (before != runs_.end()) {
    runs_[before->first] += run.count;
  } else {
    runs_.emplace(run.first, run.count);
  }
}

void BlockRuns::erase(BlockRun run) {
  CHECK(run.count > 0 && contains_all(run));
  size_ -= run.count;
  const auto at = containing(run.first);
  const BlockRun whole{at->first, at->second};
  runs_.erase(at);
  if (whole.first < run.first) runs_.emplace(whole.first, run.first - whole.first);
  if (whole.end() > run.end()) runs_.emplace(run.end(), whole.end() - run.end());
}

std::optional<BlockRun> BlockRuns::run_from(uint64_t from) const {
  auto at = containing(from);
  if (at != runs_.end()) return BlockRun{from, at->first + at->second - from};
  at = runs_.lower_bound(from);
  if (at == runs_.end()) return std::nullopt;
  return BlockRun{at->first, at->second};
}

std::optional<BlockRun> BlockRuns::last_run() const {
  if (runs_.empty()) return std::nullopt;
  const auto last = std::prev(runs_.end());
  return BlockRun{last->first, last->second};
}

std::optional<BlockRun> BlockRuns::find(uint64_t count) const {
  for (const auto& [first, length] : runs_) {
    if (length >= count) return BlockRun{first, count};
  }
  return std::nullopt;
}

BlockRuns::Runs::const_iterator BlockRuns::containing(uint64_t block) const {
  auto at = runs_.upper_bound(block);
  if (at == runs_.begin()) return runs_.end();
  --at;
  return block < at->first + at->second ? at : runs_.end();
}

}  // namespace brickfs
