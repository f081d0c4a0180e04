// SPDX-License-Identifier: Apache-2.0
#include "fs/library/file_locks.h"

#include <algorithm>

namespace brickfs::library {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};  // whether it was interrupted

bool overlaps(FileLocks::Range a, FileLocks::Range b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

bool FileLocks::conflicts(Key key, Owner owner, Range range, Mode mode) const {
  const auto of_file = locks_.find(key);
  if (of_file == locks_.end()) return false;
  return std::any_of(of_file->second.begin(), of_file->second.end(), [&](const Lock& lock) {
    return lock.owner != owner && overlaps(lock.range, range) &&
           (mode == Mode::kExclusive || lock.mode == Mode::kExclusive);
  });
}

void FileLocks::cut_out(Key key, Owner owner, Range range) {
  const auto of_file = locks_.find(key);
  if (of_file == locks_.end()) return;
  std::vector<Lock> left;
  for (const Lock& lock : of_file->second) {
    if (lock.owner != owner || !overlaps(lock.range, range)) {
      left.push_back(lock);
      continue;
    }
    if (lock.range.begin < range.begin) left.push_back({owner, {lock.range.begin, range.begin}, lock.mode});
    if (range.end < lock.range.end) left.push_back({owner, {range.end, lock.range.end}, lock.mode});
  }
  if (left.empty()) {
    locks_.erase(of_file);
  } else {
    of_file->second = std::move(left);
  }
}

Status FileLocks::lock(Space space, Ino ino, Owner owner, Range range, Mode mode, Patience patience,
                       const Interruption* by) {
  const Key key{ino, space};
  const auto until = Clock::now() + patience.value_or(std::chrono::milliseconds(0));
  MutexLock lock(mutex_);
  while (conflicts(key, owner, range, mode)) {
    if (patience && patience->count() == 0) return Error(EAGAIN, "locked by another");
    if (patience && Clock::now() >= until) return Error(ETIMEDOUT, "locked by another");
    if (waits_end_) return Error(ECANCELED, "the file system was given up");
    if (!patience) {
      TRY(wait_interruptibly(released_, lock, by));
    } else {
      TRY(Interruption::check(by));
      released_.wait_until(lock, std::min(until, Clock::now() + kLook));
    }
  }
  cut_out(key, owner, range);
  locks_[key].push_back({owner, range, mode});
  released_.notify_all();  // an exclusive one may have become shared
  return {};
}

void FileLocks::end_waits() {
  MutexLock lock(mutex_);
  waits_end_ = true;
  released_.notify_all();
}

void FileLocks::unlock(Space space, Ino ino, Owner owner, Range range) {
  MutexLock lock(mutex_);
  cut_out({ino, space}, owner, range);
  released_.notify_all();
}

bool FileLocks::is_held_by_another(Space space, Ino ino, Owner owner, Range range, Mode mode) {
  MutexLock lock(mutex_);
  return conflicts({ino, space}, owner, range, mode);
}

void FileLocks::release_all(Ino ino, Owner owner) {
  MutexLock lock(mutex_);
  if (locks_.empty()) return;
  for (const Space space : {Space::kRanges, Space::kWhole}) cut_out({ino, space}, owner, {0, UINT64_MAX});
  released_.notify_all();
}

}  // namespace brickfs::library
