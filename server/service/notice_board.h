// SPDX-License-Identifier: Apache-2.0
// What a volume remembers of notifications, for each tag: the last value, and how many there were. Who notifies waits
// for nobody: who waits is woken, and reads what is there then. Decision 73.
//
// Threads: every call from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "transport/base/mutex.h"
#include "transport/brick/calls.h"

namespace brickfs {

class NoticeBoard {
 public:
  using Time = std::chrono::steady_clock::time_point;

  NoticeBoard();
  NoticeBoard(const NoticeBoard&) = delete;
  NoticeBoard& operator=(const NoticeBoard&) = delete;

  // Of more than limits::kTagsPerVolume tags the one notified longest ago is forgotten.
  void notify(uint64_t tag, uint64_t value);
  // How the tags stand, as soon as one of them stands otherwise than seen; at the latest at `until`, or once `given_up`
  // is set and wake_all() called.
  std::vector<calls::Notice> wait(std::span<const calls::Seen> seen, Time until, const std::atomic<bool>& given_up);
  void wake_all();

 private:
  struct Entry {
    calls::Notice notice;
    uint64_t last = 0;  // when it was notified: counts all notifications
  };
  struct Waiter {
    CondVar woken;
  };

  calls::Notice notice_of(uint64_t tag) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_news(std::span<const calls::Seen> seen) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void forget_oldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wake(uint64_t tag) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  uint64_t next_origin_ ABSL_GUARDED_BY(mutex_);
  uint64_t notified_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);                 // by tag
  absl::flat_hash_map<uint64_t, std::vector<Waiter*>> waiting_ ABSL_GUARDED_BY(mutex_);  // by tag
};

}  // namespace brickfs
