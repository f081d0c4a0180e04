// SPDX-License-Identifier: Apache-2.0
// What takes several calls of a Brick, within one session. Errors as the calls answer; EPROTO for a list that is none.
#pragma once

#include <span>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"

namespace brickfs {

// All allocated blocks: ascending, maximal runs.
Result<std::vector<BlockRange>> list_blocks(Brick& brick);
// One after another, so barriers hold across calls too.
Status commit_ranges(Brick& brick, std::span<const CommitRange> ranges);

// An error of Brick::open() that is the brick's own answer, the same by every path to it; others are of the path. Not
// EACCES: whoever has one of the brick's addresses can say that, and another leads to the brick.
constexpr bool is_brick_answer(Error error) {
  return error.is(ENOENT) || error.is(EBUSY) || error.is(ESTALE) || error.is(EINVAL) || error.is(EUSERS);
}

// Of the errors of two paths the one to be told: that somebody answered says more than that nobody did.
constexpr Error more_telling(Error first, Error second) {
  const bool answered = first.is(EACCES) || first.is(EKEYREJECTED) || first.is(EPROTO);
  return answered && !is_brick_answer(second) ? first : second;
}

}  // namespace brickfs
