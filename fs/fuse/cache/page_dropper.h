// SPDX-License-Identifier: Apache-2.0
// Has the kernel drop pages of files before a request is answered: those of bytes that were written behind its page
// cache's back, or those of a hole, which it writes back first if a program has stored to them.
//
// The kernel waits for each page that is locked, for one, until a read of it has been answered. So no thread that
// serves requests may wait for it: it leaves the answer to a thread of this. And the kernel may keep such a read to
// itself until some of the writes have been answered (it has a limit for asynchronous requests, and over io_uring
// entries for so many). So the answer to a request of the kernel's goes without its pages having been dropped once the
// kernel has been seen to wait for kPatience. They are all the same: that read, which comes then, brings what was
// written, and it is behind it that the kernel goes on. Who asks for holes is told so, and says that there are none. A
// thread that is only short of processor time is waited for.
//
// Threads: any; it starts its own two with the first drop.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
  struct Range {  // of bytes
    uint64_t offset;
    uint64_t length;
    bool operator==(const Range&) const = default;
  };
  enum class Asker { kKernel, kOther };  // of the request: the latter holds nothing up but itself
  // Called once. False: pages may be there still.
  using Answer = std::function<void(bool dropped)>;
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
  // In turn: the first range, then `answer` is called, on another thread, then the second. Of an empty one nothing is
  // dropped. False: after stop(); nothing is done.
  [[nodiscard]] bool drop(Ino ino, Range first, Range second, Asker asker, Answer answer);
  // Returns when all has been dropped and answered, for which others must go on serving requests. Nothing is dropped
  // from now on.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Drop {
    Ino ino;
    Range first;
    Range second;
    Asker asker;
    Clock::time_point begun;
    Answer answer;  // empty: it has been called
  };

  void run();
  void watch();
  // Both let go of the mutex meanwhile. An empty range: there is none to give.
  void give_notice(Ino ino, Range range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void answer_first() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_held_up() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Answer> take_overdue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Notice notice_;
  std::atomic<size_t> pending_{0};
  Mutex mutex_;
  CondVar wanted_;                                  // by both threads
  std::deque<Drop> drops_ ABSL_GUARDED_BY(mutex_);  // the first is the one at hand
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t noticing_ ABSL_GUARDED_BY(mutex_) = 0;  // the thread, while it gives a notice; 0: it does not
  uint64_t notices_ ABSL_GUARDED_BY(mutex_) = 0;   // that were begun
  std::thread dropping_;
  std::thread watching_;
};

}  // namespace brickfs
