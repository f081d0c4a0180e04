// SPDX-License-Identifier: Apache-2.0
// Notices to the kernel, one after the other, on a thread of its own: before it takes one the kernel waits for pages or
// for a directory, and so for requests that others serve meanwhile.
//
// Threads: any; it starts its own with the first notice.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class NoticeThread {
 public:
  static constexpr size_t kMost = 4096;
  using Notice = std::function<void()>;
  // Called once, by any thread, with success when the notice has been given. ECANCELED: after stop(), EAGAIN: too many
  // wait; it has not been given.
  using Done = std::function<void(const Status& status)>;

  NoticeThread() = default;
  ~NoticeThread();  // as stop()
  NoticeThread(const NoticeThread&) = delete;
  NoticeThread& operator=(const NoticeThread&) = delete;

  // In turn; does not wait. `most`: if so many wait, it is not given.
  void give(Notice notice, Done done, size_t most = kMost);
  // Returns when the notice at hand has been given; the others are not.
  void stop();
  bool is_stopping() const;

 private:
  struct Job {
    Notice notice;
    Done done;
  };
  Status add(Job& job, size_t most);
  void run();

  mutable Mutex mutex_;
  CondVar wanted_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace brickfs
