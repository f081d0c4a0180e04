// SPDX-License-Identifier: Apache-2.0
// File operations that are those of another one, for who adds something to some of them.
//
// Threads, errors: the other one's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/operations/file_operations.h"
#include "fs/operations/joint_transfer.h"
#include "transport/base/result.h"

namespace brickfs {

class ForwardedFiles : public FileOperations {
 public:
  [[nodiscard]] WakeLater answer_first() override { return files().answer_first(); }
  Result<Attributes> lookup(Ino directory, std::string_view name, const OperationContext& context) override {
    return files().lookup(directory, name, context);
  }
  void forget(Ino ino, uint64_t references) override { files().forget(ino, references); }
  Status hold(Ino ino) override { return files().hold(ino); }
  std::vector<Ino> referenced_from(Ino from) const override { return files().referenced_from(from); }
  Result<Attributes> create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                            const OperationContext& context) override {
    return files().create(directory, name, mode, caller, context);
  }
  Result<Attributes> make_temporary(Ino directory, uint32_t mode, const Caller& caller,
                                    const OperationContext& context) override {
    return files().make_temporary(directory, mode, caller, context);
  }
  Result<Attributes> make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev, const Caller& caller,
                               const OperationContext& context) override {
    return files().make_node(directory, name, mode, rdev, caller, context);
  }
  Result<Attributes> make_directory(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                    const OperationContext& context) override {
    return files().make_directory(directory, name, mode, caller, context);
  }
  Result<Attributes> make_symlink(Ino directory, std::string_view name, std::string_view target, const Caller& caller,
                                  const OperationContext& context) override {
    return files().make_symlink(directory, name, target, caller, context);
  }
  Result<Attributes> link(Ino ino, Ino directory, std::string_view name, const OperationContext& context) override {
    return files().link(ino, directory, name, context);
  }
  Status unlink(Ino directory, std::string_view name, const OperationContext& context) override {
    return files().unlink(directory, name, context);
  }
  Status remove_directory(Ino directory, std::string_view name, const OperationContext& context) override {
    return files().remove_directory(directory, name, context);
  }
  Result<Renamed> rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name, Rename how,
                         const Caller* whiteout, const OperationContext& context) override {
    return files().rename(directory, name, new_directory, new_name, how, whiteout, context);
  }
  Result<std::string> read_symlink(Ino ino, const OperationContext& context) override {
    return files().read_symlink(ino, context);
  }
  Status read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor, Touch touch,
                        const OperationContext& context) override {
    return files().read_directory(directory, offset, plus, visitor, touch, context);
  }
  Result<Attributes> get_attributes(Ino ino, const OperationContext& context) override {
    return files().get_attributes(ino, context);
  }
  bool take_told(Ino ino, const OperationContext& context) override { return files().take_told(ino, context); }
  Result<Attributes> set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                    const OperationContext& context) override {
    return files().set_attributes(ino, change, caller, context);
  }
  Status set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags, const Caller& caller,
                   const OperationContext& context) override {
    return files().set_xattr(ino, name, value, flags, caller, context);
  }
  Result<std::vector<std::byte>> get_xattr(Ino ino, std::string_view name, const OperationContext& context) override {
    return files().get_xattr(ino, name, context);
  }
  Result<std::vector<std::byte>> list_xattr(Ino ino, const Caller& caller, const OperationContext& context) override {
    return files().list_xattr(ino, caller, context);
  }
  Status remove_xattr(Ino ino, std::string_view name, const OperationContext& context) override {
    return files().remove_xattr(ino, name, context);
  }
  Result<uint64_t> read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch,
                        const OperationContext& context) override {
    return files().read(ino, offset, into, touch, context);
  }
  Result<FileLayout> layout(Ino ino, uint64_t offset, size_t most_parts) const override {
    return files().layout(ino, offset, most_parts);
  }
  bool is_atime_due(Ino ino) const override { return files().is_atime_due(ino); }
  Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                         const Caller* unprivileged, bool mapped, const OperationContext& context) override {
    return files().write(ino, offset, from, append, unprivileged, mapped, context);
  }
  Result<uint64_t> overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                             const OperationContext& context) override {
    return files().overwrite(ino, offset, from, context);
  }
  Result<uint64_t> write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                               const OperationContext& context) override {
    return files().write_units(ino, filled, unprivileged, context);
  }
  std::unique_ptr<JointTransfer> joint_transfer(const OperationContext& context) override {
    return files().joint_transfer(context);
  }
  Status allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                  const OperationContext& context) override {
    return files().allocate(ino, mode, offset, length, unprivileged, context);
  }
  Result<Hole> next_hole(Ino ino, uint64_t offset, const OperationContext& context) override {
    return files().next_hole(ino, offset, context);
  }
  Result<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                              const Caller* unprivileged, const OperationContext& context) override {
    return files().copy_range(from, from_offset, to, to_offset, length, unprivileged, context);
  }
  Status cover_lost(Ino ino, uint64_t end) override { return files().cover_lost(ino, end); }
  Status sync(Ino ino, const OperationContext& context) override { return files().sync(ino, context); }
  Status sync_all(const OperationContext& context) override { return files().sync_all(context); }
  Status await_written(const OperationContext& context) override { return files().await_written(context); }
  Result<std::optional<FileLock>> find_lock(const LockRequest& request, const OperationContext& context) override {
    return files().find_lock(request, context);
  }
  Status set_lock(const LockRequest& request, bool waits, const OperationContext& context) override {
    return files().set_lock(request, waits, context);
  }
  Status close_locks(Ino ino, const LockOwner& owner, uint64_t open_file, const OperationContext& context) override {
    return files().close_locks(ino, owner, open_file, context);
  }
  Status release_locks(Ino ino, uint64_t machine, uint64_t open_file) override {
    return files().release_locks(ino, machine, open_file);
  }
  Status release_machine_locks(uint64_t machine) override { return files().release_machine_locks(machine); }
  void note_cached(Ino ino, uint64_t offset, uint64_t length) override { files().note_cached(ino, offset, length); }
  bool is_cached(Ino ino, uint64_t offset, uint64_t length) const override {
    return files().is_cached(ino, offset, length);
  }
  std::optional<CachedRegions::Range> take_cached(Ino ino, uint64_t offset, uint64_t length) override {
    return files().take_cached(ino, offset, length);
  }
  void ask_before_touching(std::function<bool()> may_touch) override {
    files().ask_before_touching(std::move(may_touch));
  }
  void reserve_for_writeback(uint64_t bytes, std::function<void()> on_short) override {
    files().reserve_for_writeback(bytes, std::move(on_short));
  }
  void settle_writeback() override { files().settle_writeback(); }
  bool is_short_for_writeback() const override { return files().is_short_for_writeback(); }
  KnownFiles known_files(Ino from, size_t most) const override { return files().known_files(from, most); }
  bool read_only() const override { return files().read_only(); }
  std::string why_read_only() const override { return files().why_read_only(); }
  std::string store_trouble() const override { return files().store_trouble(); }
  FilesystemStat stat() const override { return files().stat(); }
  Uncommitted uncommitted() const override { return files().uncommitted(); }
  PersistenceStat persistence() const override { return files().persistence(); }
  VolumeAccess& volume() override { return files().volume(); }

 protected:
  // Whose they are.
  virtual FileOperations& files() const = 0;
};

}  // namespace brickfs
