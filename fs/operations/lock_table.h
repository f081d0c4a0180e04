// SPDX-License-Identifier: Apache-2.0
// The advisory locks of all files of a volume, and who waits for one (FileOperations::set_lock and its neighbours say
// what each does).
//
// A lock that goes is given to those who waited for it, in the order in which they came, by whoever let it go. Who does
// not wait gets a lock that is free at once, though others wait for a larger one.
//
// Linux does the same in fs/locks.c: a range is split, merged, upgraded and downgraded as fcntl(2) says; another mode
// of flock(2) means to let go of the lock first; only ranges are looked at for circles of owners that wait for each
// other.
//
// Threads: any. No lock is held while one waits. `lost` is asked under the table's own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fs/operations/file_lock.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class LockTable {
 public:
  // The kernel tells of the last close of an open file behind the close that its program sees. So a lock of a file
  // that was just closed by somebody is waited for, for so long, also by who does not wait: it may be about to go.
  static constexpr std::chrono::milliseconds kClosing{50};
  static constexpr size_t kMostLocks = 1'000'000;  // of all files

  // Whoever waits is told what `lost` says, once that is an error: whoever has the lock cannot let it go here any more.
  explicit LockTable(std::function<Status()> lost = [] { return Status(); }) : lost_(std::move(lost)) {}

  // The first byte's of those that stand against it; without a pid, if that is another machine's. None: it could be
  // set.
  std::optional<FileLock> find_conflict(const LockRequest& request);
  // EINVAL: no range. EAGAIN: another has it. EDEADLK: `waits`, and whoever has it waits for this owner. ENOLCK: too
  // many. EINTR: also if the machine went meanwhile. ESTALE and others: `waits`, and the volume is lost.
  Status set(const LockRequest& request, bool waits, const Interruption* by);

  // Of a lock that was given elsewhere: it is noted, whoever else has one.
  void note(const LockRequest& request);
  std::vector<LockRequest> all() const;
  // Of that machine; who waits there is told EINTR. It keeps what it has.
  std::vector<LockRequest> end_waiting(uint64_t machine);

  // All that the owner has of the file, which it closes by that open file.
  void release_owner(Ino ino, const LockOwner& owner, uint64_t open_file);
  void release_open_file(Ino ino, uint64_t machine, uint64_t open_file);
  // Who waits there is told EINTR.
  void release_machine(uint64_t machine);

  size_t size() const;     // locks
  size_t waiting() const;  // requests

 private:
  using Clock = std::chrono::steady_clock;

  struct Held {
    LockOwner owner;
    uint64_t open_file;
    FileLock lock;
    Clock::time_point closing_until = {};
  };
  struct Waiter {
    const LockRequest& request;
    std::optional<Status> outcome = {};
    CondVar changed = {};
  };
  struct File {
    std::vector<Held> held = {};
    std::vector<Waiter*> waiters = {};  // as they came
  };

  std::vector<const Held*> conflicts_of(const LockRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Held* find_standing(const LockRequest& request, MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool would_wait_for_itself(const LockRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status await(const LockRequest& request, MutexLock& lock, const Interruption* by)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void put(File& file, const LockRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Goes>
  void release(Ino ino, const Goes& goes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void serve_waiters(Ino ino) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end_waits_of(uint64_t machine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end_wait(Waiter& waiter, const Status& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<Status()> lost_;

  mutable Mutex mutex_;
  CondVar released_;  // anything
  absl::flat_hash_map<Ino, File> files_ ABSL_GUARDED_BY(mutex_);
  std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);  // of all files
  size_t held_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace brickfs
