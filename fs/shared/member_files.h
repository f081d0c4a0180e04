// SPDX-License-Identifier: Apache-2.0
// The file system of a shared volume on a member: what its leases let it keep is answered from memory
// (fs/shared/held.h), and all else is a call to the coordinator. What a member's kernel knows of inodes is counted
// here, too: for who looks through it, and the coordinator is told when that is nothing any more.
//
// What a mount says of itself and statfs(2) are as old as the last look at the coordinator, a second.
//
// Threads: every call from any thread at once.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/inode/cached_regions.h"
#include "fs/operations/file_operations.h"
#include "fs/operations/lock_table.h"
#include "fs/shared/coordinator_link.h"
#include "fs/shared/member_bricks.h"
#include "fs/shared/member_data.h"
#include "fs/shared/member_units.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/volume/volume_access.h"

namespace brickfs::shared {

// How the volume can be reached: by the coordinator.
class MemberAccess final : public VolumeAccess {
 public:
  // `data` may be null.
  MemberAccess(CoordinatorLink& link, MemberData* data) : link_(link), data_(data) {}
  LinkState link_state() const override { return link_.link_state(); }
  bool is_away() const override { return link_.is_away(); }
  Status final_error() const override { return link_.final_error(); }
  Durability durability() const override { return link_.durability(); }
  LatencyCounts counts(VolumeCall) const override { return {}; }
  std::optional<KnownMap> known_map() const override { return std::nullopt; }
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override {
    return data_ != nullptr ? data_->register_memory(memory) : RegisteredMemory();
  }
  void give_up_silent(std::chrono::milliseconds) override { link_.give_up_silent(); }
  void give_up_outage() override { link_.give_up_outage(); }
  void interrupt() override { link_.interrupt(); }

 private:
  CoordinatorLink& link_;
  MemberData* const data_;
};

class MemberFiles final : public FileOperations {
 public:
  // `open_brick`: as MemberBricks'; null: all is read by the coordinator.
  MemberFiles(std::unique_ptr<CoordinatorLink> link, MemberBricks::Open open_brick, bool read_only, bool no_atime);
  ~MemberFiles() override;
  // To the coordinator.
  std::vector<CallCounters::Call> calls() const { return link_->calls(); }
  // What the own kernel and programs have already, by other file operations: before others use this.
  struct Referenced {
    Ino ino;
    uint64_t references;
    bool is_regular;
  };
  void take_up(std::span<const Referenced> referenced, std::span<const LockRequest> locks);
  // Files that it reads by pages until they are closed. `kernel` is asked for nothing behind let_go_of_kernel().
  void keep_pages(OwnKernel& kernel, std::vector<Ino> files);
  void let_go_of_kernel();
  // For good: every call fails from now on.
  void lose(const char* why) { link_->lose(why); }
  // Everything durable, and let go of at the coordinator. An error: of making it durable.
  Status unmount();

  [[nodiscard]] WakeLater answer_first() override { return WakeLater(nullptr); }
  Result<Attributes> lookup(Ino directory, std::string_view name, const OperationContext& context) override;
  void forget(Ino ino, uint64_t references) override;
  Status hold(Ino ino) override;
  std::vector<Ino> referenced_from(Ino from) const override;
  Result<Attributes> create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                            const OperationContext& context) override;
  Result<Attributes> make_temporary(Ino directory, uint32_t mode, const Caller& caller,
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
  Result<std::string> read_symlink(Ino ino, const OperationContext& context) override;
  Status read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor, Touch touch,
                        const OperationContext& context) override;
  Result<Attributes> get_attributes(Ino ino, const OperationContext& context) override;
  // The kernel is told attributes for no time at all.
  bool take_told(Ino, const OperationContext&) override { return false; }
  Result<Attributes> set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                    const OperationContext& context) override;
  Status set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags, const Caller& caller,
                   const OperationContext& context) override;
  Result<std::vector<std::byte>> get_xattr(Ino ino, std::string_view name, const OperationContext& context) override;
  Result<std::vector<std::byte>> list_xattr(Ino ino, const Caller& caller, const OperationContext& context) override;
  Status remove_xattr(Ino ino, std::string_view name, const OperationContext& context) override;
  Result<uint64_t> read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch,
                        const OperationContext& context) override;
  Result<FileLayout> layout(Ino, uint64_t, size_t) const override { return Error(EOPNOTSUPP, "with the coordinator"); }
  // Of what was read from the bricks.
  MemberData::Counts data_counts() const { return data_ == nullptr ? MemberData::Counts() : data_->counts(); }
  // Of what was written to the bricks.
  MemberUnits::Counts unit_counts() const { return units_ == nullptr ? MemberUnits::Counts() : units_->counts(); }
  bool is_atime_due(Ino) const override { return false; }  // asked of the coordinator with each read
  Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                         const Caller* unprivileged, bool mapped, const OperationContext& context) override;
  Result<uint64_t> overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                             const OperationContext& context) override;
  Result<uint64_t> write_units(Ino, const FilledRange&, const Caller*, const OperationContext&) override {
    return Error(EOPNOTSUPP, "with the coordinator");
  }
  // Takes none: each goes by itself.
  std::unique_ptr<JointTransfer> joint_transfer(const OperationContext& context) override;
  Status allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                  const OperationContext& context) override;
  Result<Hole> next_hole(Ino ino, uint64_t offset, const OperationContext& context) override;
  Result<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                              const Caller* unprivileged, const OperationContext& context) override;
  // The kernel's write-back cache is off on a member.
  Status cover_lost(Ino, uint64_t) override { return {}; }
  Status sync(Ino ino, const OperationContext& context) override;
  Status sync_all(const OperationContext& context) override;
  Result<std::optional<FileLock>> find_lock(const LockRequest& request, const OperationContext& context) override;
  Status set_lock(const LockRequest& request, bool waits, const OperationContext& context) override;
  Status close_locks(Ino ino, const LockOwner& owner, uint64_t open_file, const OperationContext& context) override;
  Status release_locks(Ino ino, uint64_t machine, uint64_t open_file) override;
  Status release_machine_locks(uint64_t) override { return {}; }         // others' locks are the coordinator's business
  Status await_written(const OperationContext&) override { return {}; }  // before each answer
  void note_cached(Ino ino, uint64_t offset, uint64_t length) override;
  bool is_cached(Ino ino, uint64_t offset, uint64_t length) const override;
  std::optional<CachedRegions::Range> take_cached(Ino ino, uint64_t offset, uint64_t length) override;
  void ask_before_touching(std::function<bool()> may_touch) override { may_touch_ = std::move(may_touch); }
  void reserve_for_writeback(uint64_t, std::function<void()>) override {}
  void settle_writeback() override {}
  bool is_short_for_writeback() const override { return false; }
  KnownFiles known_files(Ino from, size_t most) const override;
  bool read_only() const override { return read_only_ || link_->state().read_only; }
  std::string why_read_only() const override { return link_->state().why_read_only; }
  std::string store_trouble() const override { return link_->state().store_trouble; }
  FilesystemStat stat() const override { return link_->state().stat; }
  Uncommitted uncommitted() const override { return link_->state().uncommitted; }
  PersistenceStat persistence() const override { return {}; }
  VolumeAccess& volume() override { return access_; }

 private:
  // An inode that our kernel refers to.
  struct Known {
    uint64_t references = 0;
    uint64_t given = 0;  // by the coordinator
    bool is_regular = false;
    CachedRegions cached;
  };
  struct Name {
    Ino directory;
    std::string_view name;
  };
  // Of an answer with a reference, which was asked for in that epoch of the link.
  Attributes note(const Attributes& attributes, uint64_t epoch);
  std::vector<Claim> claims();
  bool refer_again(Ino ino);
  bool refers_to(Ino ino) const;
  template <typename Asked>
  Result<Attributes> add_name(Ino directory, std::string_view name, Ino also, const Asked& asked,
                              const OperationContext& context);
  template <typename Asked>
  Status release(const Asked& asked, const OperationContext& context);
  std::vector<Ino> drop_named(Held::Change& change, std::initializer_list<Name> names);
  Status remove(Ino directory, std::string_view name, bool is_directory, const OperationContext& context);
  bool show(const std::vector<Held::Listed>& listing, uint64_t offset, bool plus, const EntryVisitor& visitor);
  Result<uint64_t> write_some(const Write& asked, std::span<const LocalSlice> from, const OperationContext& context);
  std::unique_ptr<MemberUnits> make_units();
  bool may_fill_units(const Write& asked, uint64_t length) const;
  std::optional<Status> write_units(const Write& asked, std::span<const LocalSlice> from,
                                    const OperationContext& context);
  Result<Attributes> make(Make::How how, Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                          std::string_view target, const Caller& caller, const OperationContext& context);
  Result<bool> read_some(Ino directory, uint64_t& offset, bool plus, const EntryVisitor& visitor, bool touches,
                         const OperationContext& context);
  Status check_writable() const;
  bool may_be_touched(Touch touch) const;
  bool touches(Ino ino, Touch touch) const;
  void change_data(Held::Change& change, Ino ino);

  const std::unique_ptr<MemberData> data_;  // before the link, whose threads tell it of recalls
  const std::unique_ptr<CoordinatorLink> link_;
  Held& held_;
  const bool read_only_;
  const bool no_atime_;
  MemberAccess access_;
  std::function<bool()> may_touch_;
  std::shared_ptr<KernelPages> pages_;  // null: its kernel keeps none
  std::atomic<size_t> waiting_{0};      // for locks
  LockTable locks_;                     // that the coordinator has given

  const std::unique_ptr<MemberUnits> units_;  // asks by the link, and goes first; null: all is written through him

  mutable Mutex mutex_;
  std::map<Ino, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::shared
