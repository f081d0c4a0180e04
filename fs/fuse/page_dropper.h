// SPDX-License-Identifier: Apache-2.0
// Has the kernel drop pages of files that were written behind its page cache's back, before those writes are answered.
//
// The kernel waits for each page that is locked, for one, until a read of it has been answered. So no thread that
// serves requests may wait for it: it leaves the answer to a thread of this. And the kernel may keep such a read to
// itself until some of the writes have been answered (it has a limit for asynchronous requests, and over io_uring
// entries for so many), so after kPatience an answer goes without the pages having been dropped. They are all the same:
// that read, which comes then, brings what was written, and it is behind it that the kernel goes on.
//
// Threads: any; it starts its own two with the first drop.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/mutex.h"

namespace brickfs {

class PageDropper {
 public:
  static constexpr std::chrono::milliseconds kPatience{10};
  // Has the kernel drop the pages of these bytes; waits as it likes.
  using Notice = std::function<void(Ino ino, uint64_t offset, uint64_t length)>;

  explicit PageDropper(Notice notice) : notice_(std::move(notice)) {}
  ~PageDropper();  // as stop()
  PageDropper(const PageDropper&) = delete;
  PageDropper& operator=(const PageDropper&) = delete;

  // To be held from before what is to be dropped is taken off the record until drop() has been called: meanwhile
  // is_idle() is false.
  class Turn {
   public:
    explicit Turn(PageDropper& dropper) : dropper_(dropper) { ++dropper_.pending_; }
    ~Turn() { --dropper_.pending_; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    PageDropper& dropper_;
  };
  // Nothing is being dropped, or about to be.
  bool is_idle() const { return pending_ == 0; }
  // In turn; `length` 0: nothing, but what was to be dropped before has been. `answer` is called once, on another
  // thread. False: after stop(); nothing is done.
  [[nodiscard]] bool drop(Ino ino, uint64_t offset, uint64_t length, std::function<void()> answer);
  // Returns when all has been dropped and answered, for which others must go on serving requests. Nothing is dropped
  // from now on.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Drop {
    Ino ino;
    uint64_t offset;
    uint64_t length;
    Clock::time_point overdue;
    std::function<void()> answer;  // empty: it has been called
  };

  void run();
  void watch();
  std::vector<std::function<void()>> take_overdue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Notice notice_;
  std::atomic<size_t> pending_{0};
  Mutex mutex_;
  CondVar wanted_;                                  // by both threads
  std::deque<Drop> drops_ ABSL_GUARDED_BY(mutex_);  // the first is the one at hand
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread dropping_;
  std::thread watching_;
};

}  // namespace brickfs
