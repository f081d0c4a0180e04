// SPDX-License-Identifier: Apache-2.0
// Simulated threads: one of them runs at a time, until it waits, and time passes only when all wait. So thousands of
// mounts a second need no thread of the machine's, every run is the same run, and the seed decides who overlaps whom. A
// program whose threads all wait for ever aborts with a line that says so.
//
// The classes in tools/crash/simulated stand on this. Threads: one, the first that calls anything here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace brickfs::fibers {

class Fiber;
using Nanoseconds = std::chrono::nanoseconds;
constexpr Nanoseconds kForEver = Nanoseconds::max();

// Who waits for one thing, first come first served.
class WaitList {
 public:
  WaitList() = default;
  ~WaitList();  // nobody may wait
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  // Until it is woken. False: the deadline (of now()) has passed.
  bool wait(Nanoseconds deadline = kForEver);
  bool wake_one();
  void wake_all();

 private:
  friend class Scheduler;
  std::vector<Fiber*> waiting_;
};

Fiber* start(std::function<void()> body);
void join(Fiber* fiber);  // it is gone then

Nanoseconds now();

// From now on the seed decides who goes next: anybody, each time anew; or, with every other seed, whoever has the
// highest of random priorities, which change seldom, so that one thread does much while another that could go on does
// nothing. 0: first come first served, and maybe_yield() never does.
void set_schedule(uint64_t seed);
void maybe_yield();
void sleep(Nanoseconds time);
// Lets the others run until all of them wait; then for so long, and until all wait again.
void settle();
void pass(Nanoseconds time);

}  // namespace brickfs::fibers
