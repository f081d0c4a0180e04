// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/lock_table.h"

#include <algorithm>

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kLook{50};  // whether it is still waited for

bool overlap(const FileLock& a, const FileLock& b) { return a.first <= b.last && b.first <= a.last; }

// One range without a gap, or more.
bool touch(const FileLock& a, const FileLock& b) { return a.first <= b.last + 1 && b.first <= a.last + 1; }

bool is_range(const FileLock& lock) { return lock.first <= lock.last && lock.last <= FileLock::kLastByte; }

bool exclude(const FileLock& a, const FileLock& b) {
  return overlap(a, b) && (a.mode == LockMode::kExclusive || b.mode == LockMode::kExclusive);
}

}  // namespace

// By their first bytes.
std::vector<const LockTable::Held*> LockTable::conflicts_of(const LockRequest& request) const {
  std::vector<const Held*> found;
  const auto file = files_.find(request.ino);
  if (file == files_.end()) return found;
  for (const Held& held : file->second.held) {
    if (held.owner.kind == request.owner.kind && !(held.owner == request.owner) && exclude(held.lock, request.lock))
      found.push_back(&held);
  }
  std::sort(found.begin(), found.end(), [](const Held* a, const Held* b) { return a->lock.first < b->lock.first; });
  return found;
}

// The first conflict, once those that may be about to go have gone, or have not.
const LockTable::Held* LockTable::find_standing(const LockRequest& request, MutexLock& lock) {
  for (;;) {
    const std::vector<const Held*> conflicts = conflicts_of(request);
    if (conflicts.empty()) return nullptr;
    const Clock::time_point time = Clock::now();
    const auto stands = std::find_if(conflicts.begin(), conflicts.end(),
                                     [time](const Held* held) { return held->closing_until <= time; });
    if (stands != conflicts.end()) return *stands;
    released_.wait_until(lock, conflicts.front()->closing_until);
  }
}

std::optional<FileLock> LockTable::find_conflict(const LockRequest& request) {
  MutexLock lock(mutex_);
  const Held* const conflict = find_standing(request, lock);
  if (conflict == nullptr) return std::nullopt;
  FileLock found = conflict->lock;
  if (conflict->owner.machine != request.owner.machine) found.pid = 0;  // which means nothing elsewhere
  return found;
}

Status LockTable::set(const LockRequest& request, bool waits, const Interruption* by) {
  if (!is_range(request.lock)) return Error(EINVAL, "no range to lock");
  MutexLock lock(mutex_);
  if (request.lock.mode != LockMode::kUnlocked) {
    if (held_ >= kMostLocks) return Error(ENOLCK, "too many locks");
    if (request.owner.kind == LockKind::kWhole) {
      release(request.ino, [&request](const Held& held) {
        return held.owner == request.owner && held.lock.mode != request.lock.mode;
      });
    }
    if (!waits) {
      if (find_standing(request, lock) != nullptr) return Error(EAGAIN, "locked by another");
    } else if (!conflicts_of(request).empty()) {
      return await(request, lock, by);
    }
  }
  put(files_[request.ino], request);
  serve_waiters(request.ino);
  return {};
}

void LockTable::note(const LockRequest& request) {
  MutexLock lock(mutex_);
  if (request.owner.kind == LockKind::kWhole)
    release(request.ino, [&request](const Held& held) { return held.owner == request.owner; });
  put(files_[request.ino], request);
  serve_waiters(request.ino);
}

std::vector<LockRequest> LockTable::all() const {
  std::vector<LockRequest> all;
  MutexLock lock(mutex_);
  for (const auto& [ino, file] : files_)
    for (const Held& held : file.held) all.push_back({ino, held.owner, held.open_file, held.lock});
  return all;
}

Status LockTable::await(const LockRequest& request, MutexLock& lock, const Interruption* by) {
  if (would_wait_for_itself(request)) return Error(EDEADLK, "whoever has the lock waits for its owner");
  Waiter waiter{.request = request};
  files_[request.ino].waiters.push_back(&waiter);
  waiters_.push_back(&waiter);
  while (!waiter.outcome) {
    Status goes_on = Interruption::check(by);
    if (goes_on.ok()) goes_on = lost_();
    if (goes_on.ok()) {
      waiter.changed.wait_for(lock, kLook);
    } else {
      end_wait(waiter, goes_on);
      serve_waiters(request.ino);  // which forgets a file without any
    }
  }
  return *waiter.outcome;
}

// Source: fs/locks.c of Linux, posix_locks_deadlock(). Of ranges only: who waits for a whole file may be one of many
// that have it open.
bool LockTable::would_wait_for_itself(const LockRequest& request) const {
  if (request.owner.kind != LockKind::kRange) return false;
  std::vector<LockOwner> reached;
  const auto reach = [this, &reached](const LockRequest& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const Held* held : conflicts_of(waiting)) {
      if (std::find(reached.begin(), reached.end(), held->owner) == reached.end()) reached.push_back(held->owner);
    }
  };
  reach(request);
  for (size_t i = 0; i < reached.size(); ++i) {
    if (reached[i] == request.owner) return true;
    const LockOwner owner = reached[i];
    for (const Waiter* waiter : waiters_) {
      if (waiter->request.owner == owner) reach(waiter->request);
    }
  }
  return false;
}

// What the owner has of the range goes, or becomes one with it.
void LockTable::put(File& file, const LockRequest& request) {
  Held put{.owner = request.owner, .open_file = request.open_file, .lock = request.lock};
  std::vector<Held> held;
  held.reserve(file.held.size() + 2);
  for (const Held& each : file.held) {
    const bool same_mode = each.lock.mode == request.lock.mode;
    if (!(each.owner == request.owner) || !touch(each.lock, request.lock) ||
        (!same_mode && !overlap(each.lock, request.lock))) {
      held.push_back(each);
    } else if (same_mode) {
      put.lock.first = std::min(put.lock.first, each.lock.first);
      put.lock.last = std::max(put.lock.last, each.lock.last);
    } else {
      if (each.lock.first < request.lock.first) {
        held.push_back(each);
        held.back().lock.last = request.lock.first - 1;
      }
      if (each.lock.last > request.lock.last) {
        held.push_back(each);
        held.back().lock.first = request.lock.last + 1;
      }
    }
  }
  if (request.lock.mode != LockMode::kUnlocked) held.push_back(put);
  held_ += held.size() - file.held.size();
  file.held = std::move(held);
}

// To be called when locks of the file went, or somebody who waited.
void LockTable::serve_waiters(Ino ino) {
  const auto found = files_.find(ino);
  if (found == files_.end()) return;
  File& file = found->second;
  released_.notify_all();
  for (size_t i = 0; i < file.waiters.size();) {
    Waiter& waiter = *file.waiters[i];
    if (conflicts_of(waiter.request).empty()) {
      put(file, waiter.request);
      end_wait(waiter, {});
      i = 0;  // it may have let others go on: a part of what it had is shared now
    } else {
      ++i;
    }
  }
  if (file.held.empty() && file.waiters.empty()) files_.erase(found);
}

void LockTable::end_wait(Waiter& waiter, const Status& outcome) {
  std::vector<Waiter*>& of_file = files_[waiter.request.ino].waiters;
  of_file.erase(std::find(of_file.begin(), of_file.end(), &waiter));
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
  waiter.outcome = outcome;
  waiter.changed.notify_one();
}

template <typename Goes>
void LockTable::release(Ino ino, const Goes& goes) {
  const auto found = files_.find(ino);
  if (found == files_.end()) return;
  std::vector<Held>& held = found->second.held;
  const size_t before = held.size();
  held.erase(std::remove_if(held.begin(), held.end(), goes), held.end());
  held_ -= before - held.size();
  if (held.size() < before) serve_waiters(ino);
}

void LockTable::release_owner(Ino ino, const LockOwner& owner, uint64_t open_file) {
  const MutexLock lock(mutex_);
  release(ino, [&owner](const Held& held) { return held.owner == owner; });
  const auto file = files_.find(ino);
  if (file == files_.end()) return;
  for (Held& held : file->second.held) {
    if (held.owner.machine == owner.machine && held.open_file == open_file)
      held.closing_until = Clock::now() + kClosing;
  }
}

void LockTable::release_open_file(Ino ino, uint64_t machine, uint64_t open_file) {
  const MutexLock lock(mutex_);
  release(ino, [machine, open_file](const Held& held) {
    return held.owner.machine == machine && held.open_file == open_file;
  });
}

void LockTable::end_waits_of(uint64_t machine) {
  std::vector<Waiter*> gone;
  std::copy_if(waiters_.begin(), waiters_.end(), std::back_inserter(gone),
               [machine](const Waiter* waiter) { return waiter->request.owner.machine == machine; });
  for (Waiter* waiter : gone) end_wait(*waiter, Error(EINTR, "the machine has gone"));
}

// Files that nobody is left to have any lock of are forgotten when one is asked for or let go of.
std::vector<LockRequest> LockTable::end_waiting(uint64_t machine) {
  {
    const MutexLock lock(mutex_);
    end_waits_of(machine);
  }
  std::vector<LockRequest> held = all();
  std::erase_if(held, [machine](const LockRequest& each) { return each.owner.machine != machine; });
  return held;
}

void LockTable::release_machine(uint64_t machine) {
  const MutexLock lock(mutex_);
  end_waits_of(machine);
  std::vector<Ino> files;
  for (const auto& [ino, file] : files_) files.push_back(ino);
  for (const Ino ino : files) {
    release(ino, [machine](const Held& held) { return held.owner.machine == machine; });
    serve_waiters(ino);
  }
}

size_t LockTable::size() const {
  const MutexLock lock(mutex_);
  return held_;
}

size_t LockTable::waiting() const {
  const MutexLock lock(mutex_);
  return waiters_.size();
}

}  // namespace brickfs
