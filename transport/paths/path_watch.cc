// SPDX-License-Identifier: Apache-2.0
#include "transport/paths/path_watch.h"

#include <algorithm>
#include <utility>

#include "transport/base/random.h"
#include "transport/brick/proof.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kLooks = 4;  // at a path that works, before it is trusted

ClientId random_client() { return ClientId{random_id<uint64_t>()}; }

}  // namespace

PathWatch::PathWatch(std::function<std::unique_ptr<Brick>()> make_probe, PathTimes times,
                     std::function<void()> on_healthy)
    : make_probe_(std::move(make_probe)), times_(times), on_healthy_(std::move(on_healthy)) {
  thread_ = std::thread([this] { run(); });
}

PathWatch::~PathWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void PathWatch::watch(const OpenRequest& volume, BootId boot, milliseconds healthy) {
  Task task;
  task.request.volume = volume.volume;
  task.request.client = random_client();
  task.request.client_name = volume.client_name;
  task.request.mode = OpenMode::kObserve;
  task.boot = boot;
  task.healthy = healthy;
  MutexLock lock(mutex_);
  task.number = ++number_;
  task_ = std::move(task);
  changed_.notify_all();
}

void PathWatch::rest() {
  MutexLock lock(mutex_);
  task_.reset();
  ++number_;
  changed_.notify_all();
}

void PathWatch::run() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !task_) changed_.wait(lock);
      if (stopping_) return;
      task = *task_;
    }
    try_path(task);
  }
}

// Until there is something else to do.
void PathWatch::try_path(const Task& task) {
  auto delay = times_.first_probe;
  // Many clients lose a path at once: they do not all come back at once.
  while (pause(task, delay / 2 + milliseconds(jitter_() % (delay.count() + 1)))) {
    if (is_healthy(task)) {
      on_healthy_();
      delay = times_.first_probe;
    } else {
      delay = std::min(delay * 2, times_.most_between_probes);
    }
  }
}

bool PathWatch::is_healthy(const Task& task) {
  const auto probe = make_probe_();
  const auto session = probe->open(task.request, nullptr);
  if (!session.ok() || session->boot != task.boot) return false;
  for (int look = 0; look < kLooks; ++look) {
    if (!probe->stat().ok() || !pause(task, task.healthy / kLooks)) return false;
  }
  const bool works = probe->stat().ok();
  static_cast<void>(probe->close());  // an observer leaves nothing behind
  return works;
}

bool PathWatch::pause(const Task& task, milliseconds time) {
  const auto until = steady_clock::now() + time;
  MutexLock lock(mutex_);
  while (!stopping_ && number_ == task.number) {
    if (!changed_.wait_until(lock, until)) return true;
  }
  return false;
}

}  // namespace brickfs
