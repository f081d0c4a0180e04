// SPDX-License-Identifier: Apache-2.0
// Locks that programs set. They are kept in memory: a mount that ends takes them along, as its open files.
#include "fs/operations/filesystem_state.h"

namespace brickfs {

Result<std::optional<FileLock>> Filesystem::find_lock(const LockRequest& request, const OperationContext&) {
  return impl_->locks.find_conflict(request);
}

Status Filesystem::set_lock(const LockRequest& request, bool waits, const OperationContext& context) {
  return impl_->locks.set(request, waits, context.interruption);
}

Status Filesystem::close_locks(Ino ino, const LockOwner& owner, uint64_t open_file, const OperationContext&) {
  impl_->locks.release_owner(ino, owner, open_file);
  return {};
}

Status Filesystem::release_locks(Ino ino, uint64_t machine, uint64_t open_file) {
  impl_->locks.release_open_file(ino, machine, open_file);
  return {};
}

std::vector<LockRequest> Filesystem::end_own_waiting() { return impl_->locks.end_waiting(0); }

Status Filesystem::release_machine_locks(uint64_t machine) {
  impl_->locks.release_machine(machine);
  return {};
}

}  // namespace brickfs
