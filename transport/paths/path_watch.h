// SPDX-License-Identifier: Apache-2.0
// Looks after a path to a brick that has failed: tries it from time to time, less and less often, as an observer of the
// volume, which disturbs nobody; and tells when it has worked without a gap for some time.
//
// Threads: any; one of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "transport/base/mutex.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"

namespace brickfs {

struct PathTimes {
  std::chrono::milliseconds first_probe = limits::kPathProbeFirst;
  std::chrono::milliseconds most_between_probes = limits::kPathProbeMost;
  std::chrono::milliseconds healthy = limits::kPathHealthy;  // works for so long before it is trusted
  std::chrono::milliseconds trial = limits::kPathTrial;      // fails again sooner: trusted later the next time
};

class PathWatch {
 public:
  // `make_probe`: another end of the brick, by the path in question.
  PathWatch(std::function<std::unique_ptr<Brick>()> make_probe, PathTimes times, std::function<void()> on_healthy);
  ~PathWatch();  // waits for a probe under way: no longer than Brick::open() takes
  PathWatch(const PathWatch&) = delete;
  PathWatch& operator=(const PathWatch&) = delete;

  // From now on, until rest(). `on_healthy` is told each time the path has worked for `healthy`, from the watch's
  // thread; it may call neither watch() nor rest(). `volume` and `boot`: what is to be found behind the path.
  void watch(const OpenRequest& volume, BootId boot, std::chrono::milliseconds healthy);
  void rest();

 private:
  struct Task {
    OpenRequest request;
    BootId boot{};
    std::chrono::milliseconds healthy{};
    uint64_t number = 0;
  };

  void run();
  void try_path(const Task& task);
  bool is_healthy(const Task& task);
  // False: there is something else to do.
  bool pause(const Task& task, std::chrono::milliseconds time);

  const std::function<std::unique_ptr<Brick>()> make_probe_;
  const PathTimes times_;
  const std::function<void()> on_healthy_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Task> task_ ABSL_GUARDED_BY(mutex_);
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;

  std::minstd_rand jitter_{std::random_device{}()};  // the thread's
  std::thread thread_;
};

}  // namespace brickfs
