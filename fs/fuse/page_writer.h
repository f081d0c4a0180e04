// SPDX-License-Identifier: Apache-2.0
// Has the kernel write back pages of files, one file after the other, on a thread of its own: the kernel waits for the
// requests that this makes, which others serve meanwhile.
//
// Threads: any; it starts its own with the first job.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "fs/base/ids.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class PageWriter {
 public:
  // Has the kernel write back what it has of a file, and drop it; waits as it likes.
  using Notice = std::function<void(Ino ino)>;
  // Called once, by any thread. ECANCELED: after stop(), it has not been done.
  using Done = std::function<void(const Status& status)>;

  explicit PageWriter(Notice notice) : notice_(std::move(notice)) {}
  ~PageWriter();  // as stop()
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // In turn; does not wait.
  void write_back(Ino ino, Done done);
  // The same, and waits until it has been done. ETIMEDOUT: that will be later. EINTR: likewise. ECANCELED: after
  // stop().
  Status write_back(Ino ino, std::chrono::milliseconds patience, const Interruption* by);
  // In turn; does not wait. After stop() it is not done.
  void run_later(std::function<void()> job);
  void notice(Ino ino) const { notice_(ino); }
  // Returns when the job at hand is done; the others are not done.
  void stop();
  bool is_stopping() const;

 private:
  struct Job {
    std::function<void()> work;
    Done done;
  };
  void add(Job job);
  void run();

  const Notice notice_;
  mutable Mutex mutex_;
  CondVar wanted_;
  CondVar done_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace brickfs
