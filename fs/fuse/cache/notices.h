// SPDX-License-Identifier: Apache-2.0
// Notices to the kernel which it answers only when others have served requests: in general, and to write pages back.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fs/base/ids.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

// Notices to the kernel, one after the other, on a thread of its own: before it takes one the kernel waits for pages or
// for a directory, and so for requests that others serve meanwhile.
//
// Threads: any; it starts its own with the first notice.
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

// Has the kernel write back pages of files, one file after the other, on a thread of its own: the kernel waits for the
// requests that this makes, which others serve meanwhile.
//
// Threads: any.
class PageWriter {
 public:
  // Has the kernel write back what it has of a file, and drop it; waits as it likes.
  using Notice = std::function<void(Ino ino)>;

  explicit PageWriter(Notice notice) : notice_(std::move(notice)) {}
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // In turn, and waits until it has been done, together with others who wait so for the file. ETIMEDOUT: that will be
  // later. EINTR: likewise. EAGAIN: it will not. ECANCELED: after stop().
  Status write_back(Ino ino, std::chrono::milliseconds patience, const Interruption* by);
  // In turn, however many wait: for what is rare. Does not wait. After stop() it is not done.
  void run_later(std::function<void()> job);
  void notice(Ino ino) const { notice_(ino); }
  // As NoticeThread::stop().
  void stop() { thread_.stop(); }
  bool is_stopping() const { return thread_.is_stopping(); }

 private:
  struct Waited;
  std::shared_ptr<Waited> want(Ino ino);
  void take(Ino ino, const std::shared_ptr<Waited>& waited);

  const Notice notice_;
  Mutex mutex_;
  absl::flat_hash_map<Ino, std::shared_ptr<Waited>> wanted_ ABSL_GUARDED_BY(mutex_);  // whose turn has not come
  NoticeThread thread_;                                                               // last: it uses the others
};

}  // namespace brickfs
