// SPDX-License-Identifier: Apache-2.0
#include "server/store/free_runs.h"

#include "transport/base/check.h"

namespace brickfs {

void FreeRuns::add(uint32_t first, uint32_t count) {
  CHECK(!free_.contains_any({first, first + count}));
  free_.insert({first, first + count});
}

std::optional<uint32_t> FreeRuns::take(uint32_t wanted) {
  auto next = free_.at_or_behind(wanted);
  if (!next) next = free_.at_or_behind(0);
  if (!next) return std::nullopt;
  free_.erase({next->first, next->first + 1});
  return next->first;
}

}  // namespace brickfs
