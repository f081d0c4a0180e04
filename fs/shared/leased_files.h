// SPDX-License-Identifier: Apache-2.0
// The file system of a coordinator, for all who change it: whatever changes something has it recalled first from the
// members that rely on it (fs/shared/leases.h). What only looks goes straight on.
//
// Threads, errors: as FileOperations; EINTR also while something is recalled.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fs/operations/forwarded_files.h"
#include "fs/shared/leases.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs::shared {

class LeasedFiles final : public ForwardedFiles {
 public:
  // Both outlive it.
  LeasedFiles(FileOperations& files, Leases& leases) : files_(files), leases_(leases) {}

  Result<Attributes> create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                            const OperationContext& context) override;
  Result<Attributes> make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev, const Caller& caller,
                               const OperationContext& context) override;
  Result<Attributes> make_directory(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                    const OperationContext& context) override;
  Result<Attributes> make_symlink(Ino directory, std::string_view name, std::string_view target, const Caller& caller,
                                  const OperationContext& context) override;
  Result<Attributes> link(Ino ino, Ino directory, std::string_view name, const OperationContext& context) override;
  Status unlink(Ino directory, std::string_view name, const OperationContext& context) override;
  Status remove_directory(Ino directory, std::string_view name, const OperationContext& context) override;
  Result<Renamed> rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name, Rename how,
                         const Caller* whiteout, const OperationContext& context) override;
  Result<Attributes> set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                    const OperationContext& context) override;
  Status set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags, const Caller& caller,
                   const OperationContext& context) override;
  Status remove_xattr(Ino ino, std::string_view name, const OperationContext& context) override;
  Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                         const Caller* unprivileged, bool mapped, const OperationContext& context) override;
  Result<uint64_t> overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                             const OperationContext& context) override;
  std::unique_ptr<JointTransfer> joint_transfer(const OperationContext& context) override;
  Status allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                  const OperationContext& context) override;
  Result<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                              const Caller* unprivileged, const OperationContext& context) override;
  Status cover_lost(Ino ino, uint64_t end) override;

 private:
  FileOperations& files() const override { return files_; }
  Result<Leases::Change> change(Ino ino, Lease kinds, const OperationContext& context);
  Status remove(Ino directory, std::string_view name, bool is_directory, const OperationContext& context);
  Ino inode_of(Ino directory, std::string_view name, const OperationContext& context);
  template <typename Add>
  Result<Attributes> add_name(Ino directory, Ino also, const OperationContext& context, Add&& add);

  // A name keeps its meaning while what it names is recalled: who makes a name has its directory's shared, who takes
  // one away has it alone. Several directories have one.
  static constexpr size_t kNameLocks = 64;
  static size_t name_lock_of(Ino directory) { return (raw(directory) * 0x9e3779b97f4a7c15u) >> 58; }
  class NameLocks;

  FileOperations& files_;
  Leases& leases_;
  std::array<SharedMutex, kNameLocks> names_;
};

}  // namespace brickfs::shared
