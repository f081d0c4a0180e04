// SPDX-License-Identifier: Apache-2.0
// A set of blocks, kept as maximal runs of neighbours. Blocks go by index here (block address / block size).
// Threads: none of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/base/interval_set.h"
#include "transport/brick/block.h"

namespace brickfs {

struct BlockRun {
  uint64_t first = 0;
  uint64_t count = 0;

  uint64_t end() const { return first + count; }
  BlockRange range() const { return {BlockAddress{first * kBlockBytes}, count}; }
  bool operator==(const BlockRun&) const = default;
};

constexpr uint64_t block_index(BlockAddress address) { return raw(address) / kBlockBytes; }
inline BlockRun run_of(const BlockRange& range) { return {block_index(range.start), range.count}; }

class BlockRuns {
 public:
  uint64_t size() const { return blocks_.count(); }
  bool empty() const { return blocks_.empty(); }
  bool contains_all(BlockRun run) const { return blocks_.contains_all({run.first, run.end()}); }
  bool contains_any(BlockRun run) const { return blocks_.contains_any({run.first, run.end()}); }
  void insert(BlockRun run);  // none of it may be there
  void erase(BlockRun run);   // all of it must be there

  // The run that begins with the first block at or behind `from`.
  std::optional<BlockRun> run_from(uint64_t from) const;
  std::optional<BlockRun> last_run() const;
  // The first `count` neighbouring blocks.
  std::optional<BlockRun> find(uint64_t count) const;

 private:
  IntervalSet<uint64_t> blocks_;
};

}  // namespace brickfs
