// SPDX-License-Identifier: Apache-2.0
// Locks that programs set, on a mount whose volume other machines have, too. On others the kernel keeps them by itself,
// and asks once at most.
//
// Source: fs/fuse/file.c of Linux 6.18. Whether a lock is a POSIX one or an open file description's it does not say,
// nor does it tell of the last close of an open file before its program goes on.
#include <fcntl.h>

#include <array>
#include <cerrno>
#include <optional>

#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/serve/session.h"

namespace brickfs {
namespace {

std::optional<LockMode> mode_of(uint32_t type) {
  switch (type) {
    case F_RDLCK:
      return LockMode::kShared;
    case F_WRLCK:
      return LockMode::kExclusive;
    case F_UNLCK:
      return LockMode::kUnlocked;
    default:
      return std::nullopt;
  }
}

uint32_t type_of(LockMode mode) {
  if (mode == LockMode::kUnlocked) return F_UNLCK;
  return mode == LockMode::kShared ? F_RDLCK : F_WRLCK;
}

Result<LockRequest> lock_of(FuseSession& session, const FuseRequest& request, const fuse_lk_in& in) {
  if (!session.sharing().is_shared()) return Error(ENOSYS, "locks");
  const auto mode = mode_of(in.lk.type);
  if (!mode) return Error(EINVAL, "no such lock");
  const bool is_flock = (in.lk_flags & FUSE_LK_FLOCK) != 0;
  return LockRequest{.ino = request.ino(),
                     .owner = {.machine = 0, .id = in.owner, .kind = is_flock ? LockKind::kWhole : LockKind::kRange},
                     .open_file = in.fh,
                     .lock = {.first = in.lk.start, .last = in.lk.end, .mode = *mode, .pid = in.lk.pid}};
}

void getlk(FuseSession& session, FuseRequest& request, const fuse_lk_in& in) {
  const auto lock = lock_of(session, request, in);
  if (!lock.ok()) return (void)request.answer(lock.error());
  const auto found = session.files().find_lock(*lock, request.context());
  if (!found.ok()) return (void)request.answer(found.error());
  fuse_lk_out out{.lk = in.lk};
  out.lk.type = F_UNLCK;
  if (*found)
    out.lk = {.start = (*found)->first, .end = (*found)->last, .type = type_of((*found)->mode), .pid = (*found)->pid};
  request.answer_with(out);
}

template <bool kWaits>
void setlk(FuseSession& session, FuseRequest& request, const fuse_lk_in& in) {
  const auto lock = lock_of(session, request, in);
  if (!lock.ok()) return (void)request.answer(lock.error());
  session.locks().set(request, *lock, kWaits);
}

void flush(FuseSession& session, FuseRequest& request, const fuse_flush_in& in) {
  if (!session.sharing().is_shared()) return (void)request.answer(Error(ENOSYS, "flush"));
  request.answer(session.locks().close(request.ino(), in.lock_owner, in.fh, request.context()));
}

constexpr std::array kLockOperations = {
    operation<getlk, fuse_lk_in>(FUSE_GETLK, "lock", kStampsNothing).that_takes(kLittle).for_open_file(),
    operation<setlk<false>, fuse_lk_in>(FUSE_SETLK, "lock", kStampsNothing).that_takes(kLittle).for_open_file(),
    operation<setlk<true>, fuse_lk_in>(FUSE_SETLKW, "lock", kStampsNothing).that_takes(kLittle).for_open_file(),
    operation<flush, fuse_flush_in>(FUSE_FLUSH, "flush", kStampsNothing).that_takes(kLittle).for_open_file(),
};

}  // namespace

std::span<const FuseOperation> lock_operations() { return kLockOperations; }

}  // namespace brickfs
