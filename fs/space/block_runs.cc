// SPDX-License-Identifier: Apache-2.0
#include "fs/space/block_runs.h"

#include "transport/base/check.h"

namespace brickfs {
namespace {

using Interval = IntervalSet<uint64_t>::Interval;

std::optional<BlockRun> as_run(const std::optional<Interval>& blocks) {
  if (!blocks) return std::nullopt;
  return BlockRun{blocks->first, blocks->count()};
}

}  // namespace

void BlockRuns::insert(BlockRun run) {
  CHECK(run.count > 0 && !contains_any(run));
  blocks_.insert({run.first, run.end()});
}

void BlockRuns::erase(BlockRun run) {
  CHECK(run.count > 0 && contains_all(run));
  blocks_.erase({run.first, run.end()});
}

std::optional<BlockRun> BlockRuns::run_from(uint64_t from) const { return as_run(blocks_.at_or_behind(from)); }

std::optional<BlockRun> BlockRuns::last_run() const { return as_run(blocks_.last()); }

std::optional<BlockRun> BlockRuns::find(uint64_t count) const {
  std::optional<BlockRun> found;
  blocks_.for_each([&](const Interval& blocks) {
    if (blocks.count() >= count) found = BlockRun{blocks.first, count};
    return !found;
  });
  return found;
}

}  // namespace brickfs
