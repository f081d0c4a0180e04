// SPDX-License-Identifier: Apache-2.0
// What a commit has to write: each byte that it names, once, in the first of its rounds that names it.
//
// A range marked `after_previous` begins a new round, behind a sync. What an earlier round has written need not be
// written again: what the later one asks for is the bytes as they were when commit was called, and those are on their
// way already.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/btree_map.h"
#include "transport/base/result.h"
#include "transport/brick/block.h"
#include "transport/brick/brick.h"

namespace brickfs {

class CommitPlan {
 public:
  // Volume addresses, both ends within.
  struct Bytes {
    uint64_t first = 0;
    uint64_t last = 0;
    bool operator==(const Bytes&) const = default;
  };
  using Round = std::vector<Bytes>;  // ascending, neither overlapping nor touching; may be empty

  // EINVAL: too many ranges, or an impossible one.
  static Result<CommitPlan> make(std::span<const CommitRange> ranges);

  const std::vector<Round>& rounds() const { return rounds_; }
  // Every block of which a byte is named, ascending, each once.
  std::vector<BlockRange> blocks() const;
  // The blocks all bytes of which are named. Precondition: all named blocks exist, so that they are not too many.
  std::vector<BlockAddress> whole_blocks() const;

 private:
  void add(Bytes named);
  void end_round();

  std::vector<Round> rounds_;
  absl::btree_map<uint64_t, uint64_t> named_;  // first to last byte; neither overlapping nor touching
};

}  // namespace brickfs
