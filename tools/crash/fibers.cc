// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE  // its longjmp takes another stack for a broken one
#include "tools/crash/fibers.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "transport/base/check.h"

namespace brickfs::fibers {
namespace {

constexpr size_t kStackBytes = 512 * 1024;
constexpr size_t kGuardBytes = 4096;
constexpr Nanoseconds kLook{1000};       // how long it takes to look at the clock
constexpr uint32_t kPriorityHolds = 16;  // times that a thread could give way, on average

}  // namespace

class Fiber {
 public:
  jmp_buf stopped;       // where it goes on
  ucontext_t beginning;  // where it begins
  bool begun = false;
  bool done = false;
  std::byte* stack = nullptr;  // null: the program's own
  std::function<void()> body;
  WaitList ended;
  WaitList* waits_for = nullptr;
  Nanoseconds deadline = kForEver;
  bool late = false;
  uint32_t priority = 0;
  Machine machine = kOutside;
};

class Scheduler {
 public:
  Fiber* start(std::function<void()> body);
  void join(Fiber* fiber);
  bool wait(WaitList& list, Nanoseconds deadline);
  void wake(Fiber* fiber);
  void yield();
  void maybe_yield();
  void settle();
  void sleep(Nanoseconds time);
  void pass(Nanoseconds time);
  void set_schedule(uint64_t seed);
  Nanoseconds now() { return now_ += kLook; }

  Machine machine() const { return current_->machine; }
  void kill(Machine machine);
  bool is_killed(Machine machine) const { return machines_.at(machine).killed; }
  void stop(Machine machine) { machines_.at(machine).stopped = true; }
  void go_on(Machine machine);
  void visit(Machine to);

 private:
  struct MachineState {
    bool killed = false;
    bool stopped = false;
    std::vector<Fiber*> parked;  // that would run
  };

  static void begin();
  [[gnu::noinline]] void switch_to(Fiber* next);
  void run_next();
  Fiber* next();
  Fiber* take_ready();
  bool may_run(Fiber* fiber);
  void wake_late();

  Fiber program_;
  Fiber* current_ = &program_;
  std::deque<Fiber*> ready_;
  std::vector<Fiber*> timed_;     // waiting with a deadline
  std::vector<Fiber*> settling_;  // goes on when nobody is ready
  std::vector<std::byte*> free_stacks_;
  std::array<MachineState, kMachines> machines_;
  Nanoseconds now_{std::chrono::hours(1)};
  enum class Order { kQueue, kRandom, kPriority };
  Order order_ = Order::kQueue;
  std::minstd_rand random_;
};

namespace {

Scheduler& scheduler() {
  static Scheduler* const all = new Scheduler;
  return *all;
}

std::byte* new_stack() {
  void* const at =
      mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  CHECK(at != MAP_FAILED && mprotect(at, kGuardBytes, PROT_NONE) == 0);
  return static_cast<std::byte*>(at);
}

}  // namespace

// --- the scheduler

void Scheduler::begin() {
  Scheduler& all = scheduler();
  Fiber* const self = all.current_;
  self->body();
  self->body = nullptr;
  self->done = true;
  self->ended.wake_all();
  all.run_next();
}

Fiber* Scheduler::start(std::function<void()> body) {
  auto* const fiber = new Fiber;
  fiber->body = std::move(body);
  fiber->priority = static_cast<uint32_t>(random_());
  fiber->machine = current_->machine;
  if (free_stacks_.empty()) free_stacks_.push_back(new_stack());
  fiber->stack = free_stacks_.back();
  free_stacks_.pop_back();
  CHECK(getcontext(&fiber->beginning) == 0);
  fiber->beginning.uc_stack = {.ss_sp = fiber->stack + kGuardBytes, .ss_flags = 0, .ss_size = kStackBytes};
  fiber->beginning.uc_link = nullptr;
  makecontext(&fiber->beginning, &Scheduler::begin, 0);
  ready_.push_back(fiber);
  return fiber;
}

void Scheduler::join(Fiber* fiber) {
  while (!fiber->done) fiber->ended.wait();
  free_stacks_.push_back(fiber->stack);
  delete fiber;
}

void Scheduler::switch_to(Fiber* next) {
  Fiber* const from = current_;
  if (from == next) return;
  current_ = next;
  if (_setjmp(from->stopped) != 0) return;
  if (next->begun || next->stack == nullptr) _longjmp(next->stopped, 1);
  next->begun = true;
  setcontext(&next->beginning);
}

void Scheduler::run_next() { switch_to(next()); }

Fiber* Scheduler::next() {
  while (true) {
    while (ready_.empty()) {
      if (!settling_.empty()) {
        ready_.push_back(settling_.back());
        settling_.pop_back();
      } else {
        wake_late();
      }
    }
    Fiber* const fiber = take_ready();
    if (may_run(fiber)) return fiber;
  }
}

Fiber* Scheduler::take_ready() {
  auto which = ready_.begin();
  if (order_ == Order::kRandom) which += static_cast<ptrdiff_t>(random_() % ready_.size());
  if (order_ == Order::kPriority) which = std::ranges::max_element(ready_, {}, &Fiber::priority);
  Fiber* const fiber = *which;
  ready_.erase(which);
  return fiber;
}

// One of a machine that is stopped waits for that one; one of a machine that was killed is forgotten.
bool Scheduler::may_run(Fiber* fiber) {
  MachineState& machine = machines_[fiber->machine];
  if (machine.killed) return false;
  if (machine.stopped) machine.parked.push_back(fiber);
  return !machine.stopped;
}

void Scheduler::kill(Machine machine) {
  machines_.at(machine) = {.killed = true, .stopped = false, .parked = {}};
  if (current_->machine == machine) run_next();
}

void Scheduler::go_on(Machine machine) {
  machines_.at(machine).stopped = false;
  for (Fiber* const fiber : std::exchange(machines_[machine].parked, {})) ready_.push_back(fiber);
}

void Scheduler::visit(Machine to) {
  current_->machine = to;
  if (machines_.at(to).killed) run_next();
  if (machines_[to].stopped) {
    ready_.push_back(current_);
    run_next();
  }
}

// All wait: time passes until the first has waited for long enough.
void Scheduler::wake_late() {
  static constexpr char kText[] = "\nFAILED: hangs: all threads wait, and none of them for the time\n";
  if (timed_.empty()) {
    static_cast<void>(!write(STDOUT_FILENO, kText, sizeof(kText) - 1));
    CHECK(!timed_.empty());
  }
  Fiber* const first = *std::ranges::min_element(timed_, {}, &Fiber::deadline);
  now_ = std::max(now_, first->deadline);
  first->late = true;
  std::erase(first->waits_for->waiting_, first);
  wake(first);
}

bool Scheduler::wait(WaitList& list, Nanoseconds deadline) {
  Fiber* const self = current_;
  self->waits_for = &list;
  self->deadline = deadline;
  self->late = false;
  list.waiting_.push_back(self);
  if (deadline != kForEver) timed_.push_back(self);
  run_next();
  return !self->late;
}

// It is in no list any more.
void Scheduler::wake(Fiber* fiber) {
  if (fiber->deadline != kForEver) std::erase(timed_, fiber);
  fiber->waits_for = nullptr;
  ready_.push_back(fiber);
}

void Scheduler::yield() {
  if (ready_.empty()) return;
  ready_.push_back(current_);
  run_next();
}

void Scheduler::maybe_yield() {
  if (order_ == Order::kRandom && random_() % 4 == 0) yield();
  if (order_ != Order::kPriority) return;
  if (random_() % kPriorityHolds == 0) current_->priority = static_cast<uint32_t>(random_());
  yield();
}

void Scheduler::settle() {
  if (ready_.empty()) return;
  settling_.push_back(current_);
  run_next();
}

void Scheduler::sleep(Nanoseconds time) {
  WaitList nobody;
  nobody.wait(now_ + time);
}

void Scheduler::pass(Nanoseconds time) {
  sleep(time);
  settle();
}

void Scheduler::set_schedule(uint64_t seed) {
  random_.seed(static_cast<uint32_t>(seed));
  order_ = Order::kQueue;
  if (seed != 0) order_ = random_() % 2 == 0 ? Order::kRandom : Order::kPriority;
  current_->priority = static_cast<uint32_t>(random_());
}

// --- the interface

WaitList::~WaitList() { CHECK(waiting_.empty()); }

bool WaitList::wait(Nanoseconds deadline) { return scheduler().wait(*this, deadline); }

bool WaitList::wake_one() {
  if (waiting_.empty()) return false;
  Fiber* const first = waiting_.front();
  waiting_.erase(waiting_.begin());
  scheduler().wake(first);
  return true;
}

void WaitList::wake_all() {
  while (wake_one()) {
  }
}

Fiber* start(std::function<void()> body) { return scheduler().start(std::move(body)); }
void join(Fiber* fiber) { scheduler().join(fiber); }
Nanoseconds now() { return scheduler().now(); }
void set_schedule(uint64_t seed) { scheduler().set_schedule(seed); }
void maybe_yield() { scheduler().maybe_yield(); }
void settle() { scheduler().settle(); }
void sleep(Nanoseconds time) { scheduler().sleep(time); }
void pass(Nanoseconds time) { scheduler().pass(time); }

Machine machine() { return scheduler().machine(); }
void kill(Machine machine) { scheduler().kill(machine); }
bool is_killed(Machine machine) { return scheduler().is_killed(machine); }
void stop(Machine machine) { scheduler().stop(machine); }
void go_on(Machine machine) { scheduler().go_on(machine); }

Visit::Visit(Machine to) : from_(scheduler().machine()) { scheduler().visit(to); }
Visit::~Visit() { scheduler().visit(from_); }

}  // namespace brickfs::fibers
