// SPDX-License-Identifier: Apache-2.0
// Threads for what waits. They are started as they are needed, and end with this, when all they were given is done.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/thread.h"

namespace brickfs::library {

class Workers {
 public:
  explicit Workers(size_t most) : most_(most) {}
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `task` throws nothing. False: there is no thread for it, nor memory.
  bool run(std::function<void()> task) noexcept;

 private:
  bool start_one() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void serve();

  const size_t most_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::library
