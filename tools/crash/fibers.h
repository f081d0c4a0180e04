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

// --- machines. A thread is of the machine of whoever started it, the first one of kOutside, which nothing happens to.
using Machine = unsigned;
constexpr Machine kOutside = 0;
constexpr Machine kMachines = 16;
Machine machine();  // of the one that runs
// Its threads run no more, wherever they are: nothing of what they hold is given back.
void kill(Machine machine);
bool is_killed(Machine machine);
// They do not run until go_on(), though time passes; then they see how late it is.
void stop(Machine machine);
void go_on(Machine machine);

// While it lives the running thread is of that machine: what another one does for it is not cut off with its own.
class Visit {
 public:
  explicit Visit(Machine to);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  const Machine from_;
};

}  // namespace brickfs::fibers
