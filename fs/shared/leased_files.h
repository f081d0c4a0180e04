// SPDX-License-Identifier: Apache-2.0
// The file system of a coordinator, for all who change it: whatever changes something has it recalled first from the
// members that rely on it (fs/shared/leases.h). What only looks goes straight on.
//
// Threads, errors: as FileOperations; EINTR also while something is recalled.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fs/operations/forwarded_files.h"
#include "fs/shared/leases.h"
#include "fs/shared/name_locks.h"
#include "transport/base/result.h"

namespace brickfs::shared {

class LeasedFiles final : public ForwardedFiles {
 public:
  // Of both nothing is used when it goes.
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
  Result<uint64_t> write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
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

  FileOperations& files_;
  Leases& leases_;
  NameLocks names_;
};

}  // namespace brickfs::shared
