// SPDX-License-Identifier: Apache-2.0
// Where a thread that serves requests of one CPU runs. On that CPU while one request at a time comes from it: the
// caller waits there, its data is in that cache. Wherever there is room once several are being served at a time.
// Measured at depth 1 and 16: docs/decisions, 29.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>

namespace brickfs {

class FuseCpuChoice {
 public:
  // `serving`: requests of that CPU being served, by all its threads; outlives this. The thread will run where this one
  // may, or where somebody else has it run meanwhile (taskset): nowhere else, whichever CPU the requests come from.
  FuseCpuChoice(size_t cpu, std::atomic<unsigned>& serving);

  // Around each request, by the thread that serves it.
  void begin();
  void end() { --serving_; }

 private:
  enum class Place { kUnset, kOwnCpu, kAnywhere };
  void go(Place place);
  void look_for_others_choice();

  const size_t cpu_;
  std::atomic<unsigned>& serving_;
  Place place_ = Place::kUnset;
  unsigned alone_ = 0;  // requests in a row
  cpu_set_t allowed_;   // by others than this
  cpu_set_t chosen_;    // by this, of them; valid once place_ is set
};

}  // namespace brickfs
