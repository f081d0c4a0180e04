// SPDX-License-Identifier: Apache-2.0
#include "fs/library/shared_locks.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace brickfs::library {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTryLockAgain{20};

LockMode mode_of(std::optional<FileLocks::Mode> mode) {
  if (!mode) return LockMode::kUnlocked;
  return *mode == FileLocks::Mode::kShared ? LockMode::kShared : LockMode::kExclusive;
}

LockRequest request_of(const brickfs_file& file, FileLocks::Space space, FileLocks::Range range,
                       std::optional<FileLocks::Mode> mode) {
  LockRequest request{.ino = file.ino};
  request.owner.id = file.number;
  request.owner.kind = space == FileLocks::Space::kWhole ? LockKind::kWhole : LockKind::kRange;
  request.open_file = file.number;
  request.lock = {range.begin, std::min(range.end - 1, FileLock::kLastByte), mode_of(mode)};
  return request;
}

}  // namespace

// Who waits for some time only asks again and again: where the lock is, nobody knows of that time.
Status set_shared_lock(brickfs_file& file, FileLocks::Space space, FileLocks::Range range,
                       std::optional<FileLocks::Mode> mode, FileLocks::Patience patience) {
  const LockRequest request = request_of(file, space, range, mode);
  const OperationContext asked_by = context();
  const auto until = steady_clock::now() + patience.value_or(std::chrono::milliseconds(0));
  file.has_locked = true;
  while (true) {
    const Status set = file.fs.files().set_lock(request, !patience && mode, asked_by);
    if (set.code() == EINTR && file.fs.abandoned) return Error(ECANCELED, "the file system was given up");
    if (set.code() != EAGAIN || !patience) return set;
    const auto now = steady_clock::now();
    if (now >= until) return patience->count() == 0 ? set : Error(ETIMEDOUT, "locked by another");
    TRY(Interruption::check(asked_by.interruption));
    std::this_thread::sleep_for(std::min<steady_clock::duration>(kTryLockAgain, until - now));
    TRY(file.gate());
  }
}

Result<bool> is_locked_by_another(brickfs_file& file, FileLocks::Range range, FileLocks::Mode mode) {
  const auto found =
      TRY(file.fs.files().find_lock(request_of(file, FileLocks::Space::kRanges, range, mode), context()));
  return found.has_value();
}

}  // namespace brickfs::library
