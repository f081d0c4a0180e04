// SPDX-License-Identifier: Apache-2.0
#include "server/store/free_runs.h"

#include <iterator>

#include "transport/base/check.h"

namespace brickfs {

void FreeRuns::add(uint32_t first, uint32_t count) {
  count_ += count;
  auto next = runs_.lower_bound(first);
  if (next != runs_.end()) {
    CHECK(next->first >= first + count);
    if (next->first == first + count) {
      count += next->second;
      next = runs_.erase(next);
    }
  }
  if (next != runs_.begin()) {
    const auto previous = std::prev(next);
    CHECK(previous->first + previous->second <= first);
    if (previous->first + previous->second == first) {
      previous->second += count;
      return;
    }
  }
  runs_.emplace(first, count);
}

std::optional<uint32_t> FreeRuns::take(uint32_t wanted) {
  if (runs_.empty()) return std::nullopt;
  auto run = runs_.upper_bound(wanted);
  if (run != runs_.begin() && std::prev(run)->first + std::prev(run)->second > wanted) {
    run = std::prev(run);
  } else {
    if (run == runs_.end()) run = runs_.begin();
    wanted = run->first;
  }
  const uint32_t first = run->first;
  const uint32_t end = first + run->second;
  runs_.erase(run);
  if (first < wanted) runs_.emplace(first, wanted - first);
  if (wanted + 1 < end) runs_.emplace(wanted + 1, end - wanted - 1);
  --count_;
  return wanted;
}

}  // namespace brickfs
