// SPDX-License-Identifier: Apache-2.0
// What a test expects of time, on a machine whose processors others want, too.
#pragma once

#include <chrono>
#include <thread>

namespace brickfs::testing {

// The limit is one that nothing but a hang stands behind.
template <typename Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

// Whether one of ten calls takes less than `limit`, any of which may be held up where others want the processors.
template <typename Call>
bool takes_less_than(std::chrono::milliseconds limit, Call call) {
  for (int tried = 0; tried < 10; ++tried) {
    const auto began = std::chrono::steady_clock::now();
    call();
    if (std::chrono::steady_clock::now() - began < limit) return true;
  }
  return false;
}

}  // namespace brickfs::testing
