// SPDX-License-Identifier: Apache-2.0
// A set of blocks, kept as maximal runs of neighbours. Blocks go by index here (block address / block size).
// Threads: none of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
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
  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool contains_all(BlockRun run) const;
  bool contains_any(BlockRun run) const;
  void insert(BlockRun run);  // none of it may be there
  void erase(BlockRun run);   // all of it must be there

  // The run that begins with the first block at or behind `from`.
  std::optional<BlockRun> run_from(uint64_t from) const;
  std::optional<BlockRun> last_run() const;
  // The first `count` neighbouring blocks.
  std::optional<BlockRun> find(uint64_t count) const;

 private:
  using Runs = absl::btree_map<uint64_t, uint64_t>;  // first block -> count
  Runs::const_iterator containing(uint64_t block) const;

  Runs runs_;
  uint64_t size_ = 0;
};

}  // namespace brickfs
