// SPDX-License-Identifier: Apache-2.0
// Where a thread that serves requests of one CPU runs. On that CPU while one request at a time comes from it: the caller waits
// there, its data is in that cache. Wherever there is room once several are being served at a time. Measured at
// depth 1 and 16: docs/decisions, 29.
#pragma once

#include <atomic>
#include <cstddef>

namespace brickfs {

class FuseCpuChoice {
 public:
  // `serving`: requests of that CPU being served, by all its threads; outlives this.
  FuseCpuChoice(size_t cpu, std::atomic<unsigned>& serving) : cpu_(cpu), serving_(serving) {}

  // Around each request, by the thread that serves it.
  void begin();
  void end() { --serving_; }

 private:
  enum class Place { kUnset, kOwnCpu, kAnywhere };
  void go(Place place);

  const size_t cpu_;
  std::atomic<unsigned>& serving_;
  Place place_ = Place::kUnset;
  unsigned alone_ = 0;  // requests in a row
};

}  // namespace brickfs
