// SPDX-License-Identifier: Apache-2.0
// A mounted brickfs without FUSE: its tree is in memory, and its changes go to a journal. What operations do and answer
// is said by FileOperations; this is what only those need who make it and end it.
//
// Threads: every call from any thread at once. Locks: docs/architecture.md, "Lock order".
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/operations/file_operations.h"
#include "fs/operations/member_journal.h"
#include "fs/operations/unit_lending.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

struct MountOptions {
  bool read_only = false;
  bool writeback_cache = false;  // the kernel keeps size and times of files it writes
  bool no_atime = false;
  bool shared = false;  // members may come; those that the journal knows are kept for MemberJournal::end_grace()
  uint64_t max_metadata_bytes = 0;        // of memory, beyond which no name is added; 0: no bound
  Progress progress = progress_in_log();  // of the recovery
};

class Filesystem final : public FileOperations, public MemberJournal, public UnitLending {
 public:
  // Recovers (or makes) the file system on the volume and serves it: docs/recovery.md. With damage it is mounted
  // read-only and says so in the log. EUCLEAN: not a brickfs, or beyond reading; ENOTSUP: a newer format. `why` gets
  // one line for people.
  static Result<std::unique_ptr<Filesystem>> mount(std::unique_ptr<VolumeSet> volume, const MountOptions& options,
                                                   std::string* why);
  ~Filesystem() override;  // without unmount(): as if the process had crashed
  // Everything durable, checkpoint written, lease given up.
  Status unmount();
  const std::string& uuid() const;  // the volume's, as text
  // The last transaction that the mount found, and that is durable now, also after unmount(). Numbers only grow.
  Lsn found_through() const;
  // Whoever had it before, to write, has unmounted it to the end, and serves nothing of it any more.
  bool was_unmounted() const;
  Lsn durable_through() const;
  // Writes a checkpoint now, unless nothing was journalled since the last one; others go on meanwhile. Read-only:
  // nothing.
  Status checkpoint();
  // For VolumeOptions::on_commit_wanted, from any thread while this lives; does not wait.
  void want_commit();

  // --- for who goes on with another FileOperations (fs/shared/switched_files.h), once nobody uses this
  struct Referenced {
    Ino ino;
    uint64_t references;
    bool is_regular;
  };
  std::vector<Referenced> referenced() const;  // also those of members
  // That the own programs have; who waits for one is told EINTR.
  std::vector<LockRequest> end_own_waiting();

  // --- MemberJournal
  std::vector<KnownMember> members() const override;
  Status begin_member(const MemberRow& row, const Interruption* by) override;
  void end_member(uint64_t session) override;
  void end_grace() override;

  // --- UnitLending
  std::vector<UnitRun> lend_units(uint64_t blocks, ClientId client, const Interruption* by) override;
  Status clear_units(std::span<const UnitRun> runs, const Interruption* by) override;
  void end_lending(UnitRun block) override;
  void free_units(std::span<const UnitRun> runs) override;
  Status expel_client(ClientId client) override;
  std::vector<LentPlace> writable_places() const override;
  uint64_t lent_units() const override;
  void ask_back_by(std::function<void(const Interruption* by)> ask_back) override;

  // --- FileOperations
  [[nodiscard]] WakeLater answer_first() override;
  Result<Attributes> lookup(Ino directory, std::string_view name, const OperationContext& context = {}) override;
  void forget(Ino ino, uint64_t references) override;
  Status hold(Ino ino) override;
  std::vector<Ino> referenced_from(Ino from) const override;
  Result<Attributes> create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                            const OperationContext& context = {}) override;
  Result<Attributes> make_temporary(Ino directory, uint32_t mode, const Caller& caller,
                                    const OperationContext& context = {}) override;
  Result<Attributes> make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev, const Caller& caller,
                               const OperationContext& context = {}) override;
  Result<Attributes> make_directory(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                    const OperationContext& context = {}) override;
  Result<Attributes> make_symlink(Ino directory, std::string_view name, std::string_view target, const Caller& caller,
                                  const OperationContext& context = {}) override;
  Result<Attributes> link(Ino ino, Ino directory, std::string_view name, const OperationContext& context = {}) override;
  Status unlink(Ino directory, std::string_view name, const OperationContext& context = {}) override;
  Status remove_directory(Ino directory, std::string_view name, const OperationContext& context = {}) override;
  Result<Renamed> rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name, Rename how,
                         const Caller* whiteout = nullptr, const OperationContext& context = {}) override;
  Result<std::string> read_symlink(Ino ino, const OperationContext& context = {}) override;
  Status read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor,
                        Touch touch = Touch::kAtime, const OperationContext& context = {}) override;
  Result<Attributes> get_attributes(Ino ino, const OperationContext& context = {}) override;
  bool take_told(Ino ino, const OperationContext& context = {}) override;
  Result<Attributes> set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                    const OperationContext& context = {}) override;
  Status set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags, const Caller& caller,
                   const OperationContext& context = {}) override;
  Result<std::vector<std::byte>> get_xattr(Ino ino, std::string_view name,
                                           const OperationContext& context = {}) override;
  Result<std::vector<std::byte>> list_xattr(Ino ino, const Caller& caller,
                                            const OperationContext& context = {}) override;
  Status remove_xattr(Ino ino, std::string_view name, const OperationContext& context = {}) override;
  Result<uint64_t> read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch = Touch::kAtime,
                        const OperationContext& context = {}) override;
  Result<FileLayout> layout(Ino ino, uint64_t offset, size_t most_parts) const override;
  bool is_atime_due(Ino ino) const override;
  Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                         const Caller* unprivileged, bool mapped = false,
                         const OperationContext& context = {}) override;
  Result<uint64_t> overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                             const OperationContext& context = {}) override;
  Result<uint64_t> write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                               const OperationContext& context = {}) override;
  std::unique_ptr<JointTransfer> joint_transfer(const OperationContext& context = {}) override;
  Status allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                  const OperationContext& context = {}) override;
  Result<Hole> next_hole(Ino ino, uint64_t offset, const OperationContext& context = {}) override;
  Result<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                              const Caller* unprivileged, const OperationContext& context = {}) override;
  Status cover_lost(Ino ino, uint64_t end) override;
  Status sync(Ino ino, const OperationContext& context = {}) override;
  Status sync_all(const OperationContext& context = {}) override;
  Status await_written(const OperationContext& context = {}) override;
  Result<std::optional<FileLock>> find_lock(const LockRequest& request, const OperationContext& context = {}) override;
  Status set_lock(const LockRequest& request, bool waits, const OperationContext& context = {}) override;
  Status close_locks(Ino ino, const LockOwner& owner, uint64_t open_file, const OperationContext& context) override;
  Status release_locks(Ino ino, uint64_t machine, uint64_t open_file) override;
  Status release_machine_locks(uint64_t machine) override;
  void note_cached(Ino ino, uint64_t offset, uint64_t length) override;
  bool is_cached(Ino ino, uint64_t offset, uint64_t length) const override;
  std::optional<CachedRegions::Range> take_cached(Ino ino, uint64_t offset, uint64_t length) override;
  void ask_before_touching(std::function<bool()> may_touch) override;
  void reserve_for_writeback(uint64_t bytes, std::function<void()> on_short) override;
  void settle_writeback() override;
  bool is_short_for_writeback() const override;
  KnownFiles known_files(Ino from, size_t most) const override;
  bool read_only() const override;
  std::string why_read_only() const override;
  std::string store_trouble() const override;
  FilesystemStat stat() const override;
  Uncommitted uncommitted() const override;
  PersistenceStat persistence() const override;
  VolumeAccess& volume() override;

 private:
  Result<uint64_t> copy_for_member(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                                   const Caller* unprivileged, const OperationContext& context);

  class Impl;
  class Mounting;  // fs/operations/mount.cc
  explicit Filesystem(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brickfs
