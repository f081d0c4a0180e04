// SPDX-License-Identifier: Apache-2.0
// How threads wait for completions.
//
// Nobody may sleep for ever. Whoever is about to sleep adds itself to asleep_ before it looks, for the last time,
// whether its goal is reached and somebody has the watch; whoever reaches somebody's goal or gives up the watch does so
// before it looks at asleep_. Of two changes of one variable the later sees what stood before the earlier: either the
// sleeper finds what it looks for, or it is found. Who is woken to take the watch over and finds its goal reached
// meanwhile passes the watch on.
#include <poll.h>

#include <algorithm>

#include "transport/base/short_wait.h"
#include "transport/onesided/data_path.h"

namespace brickfs::onesided {
namespace {

constexpr timespec kBetweenLooks{0, 100'000};  // of who sleeps where nothing tells of completions

}  // namespace

bool DataPath::Goal::reached() const {
  if (batch != nullptr) return batch->complete();
  return unused != nullptr && unused->users.load() == 0;
}

class DataPath::Sleeper {
 public:
  Sleeper(DataPath& path, const Goal& goal, bool on_events) : path_(path), goal_(goal), on_events_(on_events) {
    path_.asleep_.fetch_add(1);
    MutexLock lock(path_.mutex_);
    path_.sleepers_.push_back(this);
  }
  ~Sleeper() {
    {
      MutexLock lock(path_.mutex_);
      std::erase(path_.sleepers_, this);
    }
    path_.asleep_.fetch_sub(1);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  bool reached() const { return goal_.reached(); }
  void wake() { on_events_ ? path_.wake_watch() : woken_.notify_one(); }
  void sleep(MutexLock& lock) { woken_.wait(lock); }

 private:
  DataPath& path_;
  const Goal& goal_;
  const bool on_events_;  // else on woken_
  CondVar woken_;
};

// Whoever sleeps on events, now or next, wakes up.
void DataPath::wake_watch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

void DataPath::wait(const Batch& batch) { wait_for({&batch, nullptr}); }
void DataPath::wait_unused(const Mapping& mapping) { wait_for({nullptr, &mapping}); }

void DataPath::wait_for(const Goal& goal) {
  poll_all();
  if (goal.reached() || poll_beside(goal)) return;
  while (!goal.reached()) {
    if (take_watch()) {
      keep_watch(goal);
      watched_.store(false);
    } else {
      park(goal);
    }
  }
  if (!watched_.load()) pass_watch_on();
}

void DataPath::keep_watch(const Goal& goal) {
  if (most_pollers_ > 0 && poll(goal)) return;
  while (!goal.reached()) sleep_on_events(goal);
}

// Precondition: nobody has the watch. To one who would sleep for ever else.
void DataPath::pass_watch_on() {
  if (asleep_.fetch_add(0) == 0 && callbacks_.load() == 0) return;
  MutexLock lock(mutex_);
  const auto next = std::ranges::find_if(sleepers_, [](const Sleeper* sleeper) { return !sleeper->reached(); });
  if (next != sleepers_.end()) {
    (*next)->wake();
  } else if (callbacks_.load() > 0) {
    background_.notify_one();
  }
}

// While another has the watch, if there are processors enough.
bool DataPath::poll_beside(const Goal& goal) {
  if (!watched_.load()) return false;
  const bool may = pollers_.fetch_add(1) + 1 < most_pollers_;
  const bool reached = may && poll(goal);
  pollers_.fetch_sub(1);
  return reached;
}

bool DataPath::poll(const Goal& goal) {
  ShortWait wait(ShortWait::kForTransfer);
  wait.begin();
  return wait.poll([&] {
    poll_all();
    return goal.reached();
  });
}

// Once, while another has the watch.
void DataPath::park(const Goal& goal) {
  Sleeper self(*this, goal, false);
  MutexLock lock(mutex_);
  if (!goal.reached() && watched_.load()) self.sleep(lock);
}

void DataPath::arm_queue_pairs() {
  const Guard guard(guards_);
  for (const auto& place : pairs_) {
    if (QueuePair* const pair = place.load()) pair->arm();
  }
}

// Until something happens, once. Precondition: the caller has the watch.
void DataPath::sleep_on_events(const Goal& goal) {
  arm_queue_pairs();
  poll_all();  // what came before the notification was asked for
  const auto events = this->events();
  std::vector<pollfd> watched = {pollfd{wake_.get(), POLLIN, 0}};
  timespec patience = {1, 0};
  for (const auto& one : events) {
    if (one->fd() < 0) patience = kBetweenLooks;
    watched.push_back({one->fd(), POLLIN, 0});
  }
  {
    const Sleeper self(*this, goal, true);
    if (!goal.reached() && !stops()) ::ppoll(watched.data(), watched.size(), &patience, nullptr);
  }
  uint64_t count = 0;
  if (watched[0].revents != 0) [[maybe_unused]]
    const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
  take_events(events);
  poll_all();
}

// Of all queue pairs that work, each once.
std::vector<std::shared_ptr<CompletionEvents>> DataPath::events() const {
  std::vector<std::shared_ptr<CompletionEvents>> all;
  MutexLock lock(mutex_);
  for (const auto& pair : owned_) {
    if (pair && !pair->failed() && std::ranges::find(all, pair->events()) == all.end()) all.push_back(pair->events());
  }
  return all;
}

bool DataPath::stops() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void DataPath::take_events(const std::vector<std::shared_ptr<CompletionEvents>>& all) {
  const Guard guard(guards_);
  for (const auto& events : all) {
    events->take([this](size_t number) {
      // Of a queue pair that has gone since: then the one in its place is armed once more, in vain.
      if (QueuePair* const pair = pairs_[number].load()) pair->disarm();
    });
  }
}

// After something was completed.
void DataPath::wake_sleepers() {
  if (asleep_.fetch_add(0) == 0) return;
  MutexLock lock(mutex_);
  for (Sleeper* const sleeper : sleepers_) {
    if (sleeper->reached()) sleeper->wake();
  }
}

void DataPath::run_background() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (callbacks_.load() == 0 || !take_watch()) {
      background_.wait(lock);
      continue;
    }
    lock.unlock();
    sleep_on_events({});
    watched_.store(false);
    pass_watch_on();
    lock.lock();
  }
}

}  // namespace brickfs::onesided
