// SPDX-License-Identifier: Apache-2.0
// A name keeps its meaning while what it names is recalled: whoever makes a name has its directory's lock together with
// others, who takes one away has it alone. Who waits to have it alone comes before those who come later.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "fs/base/ids.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs::shared {

class NameLocks {
 public:
  // Holds one as long as it lives; none: of kNoIno.
  class Lock {
   public:
    Lock(Lock&& other) noexcept
        : locks_(other.locks_), directory_(std::exchange(other.directory_, kNoIno)), alone_(other.alone_) {}
    ~Lock() {
      if (directory_ != kNoIno) locks_->unlock(directory_, alone_);
    }

   private:
    friend class NameLocks;
    Lock(NameLocks* locks, Ino directory, bool alone) : locks_(locks), directory_(directory), alone_(alone) {}
    NameLocks* locks_;
    Ino directory_;
    bool alone_;
  };

  // EINTR.
  Result<Lock> lock_shared(Ino directory, const Interruption* by) { return lock(directory, false, by); }
  Result<Lock> lock_alone(Ino directory, const Interruption* by) { return lock(directory, true, by); }
  // Both, of which either may be the other one.
  Result<std::pair<Lock, Lock>> lock_alone(Ino a, Ino b, const Interruption* by) {
    if (b < a) std::swap(a, b);
    Lock first = TRY(lock(a, true, by));
    Lock second = TRY(lock(a == b ? kNoIno : b, true, by));
    return std::pair(std::move(first), std::move(second));
  }

 private:
  struct State {
    uint32_t users = 0;    // who have it, or wait
    uint32_t shared = 0;   // have it
    uint32_t waiting = 0;  // to have it alone
    bool alone = false;    // somebody has it
  };

  Result<Lock> lock(Ino directory, bool alone, const Interruption* by) {
    if (directory == kNoIno) return Lock(this, directory, alone);
    MutexLock lock(mutex_);
    State& state = states_[directory];
    ++state.users;
    state.waiting += alone;
    Status waited;
    while (waited.ok() && (state.alone || (alone ? state.shared > 0 : state.waiting > 0)))
      waited = wait_interruptibly(changed_, lock, by);
    state.waiting -= alone;
    if (!waited.ok()) {
      leave(directory, state);
      return waited.error();
    }
    if (alone) state.alone = true;
    if (!alone) ++state.shared;
    return Lock(this, directory, alone);
  }

  void unlock(Ino directory, bool alone) {
    MutexLock lock(mutex_);
    State& state = states_.at(directory);
    if (alone) state.alone = false;
    if (!alone) --state.shared;
    leave(directory, state);
  }

  void leave(Ino directory, State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (--state.users == 0) states_.erase(directory);
    changed_.notify_all();
  }

  Mutex mutex_;
  CondVar changed_;
  std::unordered_map<Ino, State> states_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::shared
