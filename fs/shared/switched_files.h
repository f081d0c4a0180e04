// SPDX-License-Identifier: Apache-2.0
// File operations that are one's now and another's later, under a live mount: those of the tree in this process, until
// the volume is handed over, and those of a member behind that. All who serve a mount go by this one.
//
// An operation is *inside* from its begin to its end. close() keeps new ones out, and returns when none is inside;
// switch_to() lets those that wait go on, with the other. What waits for nothing, and changes nothing that the other
// one has to know of, passes at any time.
//
// Threads, errors: the other one's; EINTR also by who waits to get in.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fs/operations/forwarded_files.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/volume/volume_access.h"

namespace brickfs::shared {

// How the volume can be reached: as the ones say whose the operations are.
class SwitchedAccess final : public VolumeAccess {
 public:
  explicit SwitchedAccess(const std::atomic<FileOperations*>& files) : files_(files) {}
  LinkState link_state() const override { return now().link_state(); }
  bool is_away() const override { return now().is_away(); }
  Status final_error() const override { return now().final_error(); }
  Durability durability() const override { return now().durability(); }
  LatencyCounts counts(VolumeCall call) const override { return now().counts(call); }
  std::optional<KnownMap> known_map() const override { return now().known_map(); }
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override {
    return now().register_memory(memory);
  }
  void give_up_silent(std::chrono::milliseconds silence) override { now().give_up_silent(silence); }
  void give_up_outage() override { now().give_up_outage(); }
  void interrupt() override;
  bool is_interrupted() const { return is_interrupted_; }

 private:
  VolumeAccess& now() const { return files_.load()->volume(); }

  const std::atomic<FileOperations*>& files_;
  std::atomic<bool> is_interrupted_{false};
};

class SwitchedFiles final : public ForwardedFiles {
 public:
  // Asked before each operation of the first one, and behind it, unless that was an error which shows nothing: whether
  // what is in memory is the volume yet. An error is the answer then. `began`: the operation, as a soft mount waits
  // once. EINTR: who is interrupted does not know whether it was done, as of all that waits for a brick.
  using Clock = std::chrono::steady_clock;
  using Confirm = std::function<Status(Clock::time_point began, const Interruption* by)>;

  // `first`, and whatever follows, outlive it.
  SwitchedFiles(FileOperations& first, Confirm confirm) : now_(&first), confirm_(std::move(confirm)), access_(now_) {}

  // Nobody is inside on return, nor gets in. Who waits for a lock of the first one is to be ended by `end_waiting`,
  // which is called again and again: it waits for it anew behind the switch.
  void close(const std::function<void()>& end_waiting);
  // Once, behind close().
  void switch_to(FileOperations& next);
  bool has_switched() const { return has_switched_; }

  Result<Attributes> lookup(Ino directory, std::string_view name, const OperationContext& context) override;
  void forget(Ino ino, uint64_t references) override;
  Status hold(Ino ino) override;
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
  Result<Attributes> set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                    const OperationContext& context) override;
  Status set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags, const Caller& caller,
                   const OperationContext& context) override;
  Result<std::vector<std::byte>> get_xattr(Ino ino, std::string_view name, const OperationContext& context) override;
  Result<std::vector<std::byte>> list_xattr(Ino ino, const Caller& caller, const OperationContext& context) override;
  Status remove_xattr(Ino ino, std::string_view name, const OperationContext& context) override;
  // Memory that was registered with the first one is not known to what follows.
  Result<uint64_t> read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch,
                        const OperationContext& context) override;
  Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                         const Caller* unprivileged, bool mapped, const OperationContext& context) override;
  Result<uint64_t> overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                             const OperationContext& context) override;
  Result<uint64_t> write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                               const OperationContext& context) override;
  // Inside from its first transfer on, until it goes.
  std::unique_ptr<JointTransfer> joint_transfer(const OperationContext& context) override;
  Status allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                  const OperationContext& context) override;
  Result<Hole> next_hole(Ino ino, uint64_t offset, const OperationContext& context) override;
  Result<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                              const Caller* unprivileged, const OperationContext& context) override;
  Status cover_lost(Ino ino, uint64_t end) override;
  Status sync(Ino ino, const OperationContext& context) override;
  Status sync_all(const OperationContext& context) override;
  Result<std::optional<FileLock>> find_lock(const LockRequest& request, const OperationContext& context) override;
  Status set_lock(const LockRequest& request, bool waits, const OperationContext& context) override;
  // These two show nothing of the volume, and wait for no brick.
  Status close_locks(Ino ino, const LockOwner& owner, uint64_t open_file, const OperationContext& context) override;
  Status release_locks(Ino ino, uint64_t machine, uint64_t open_file) override;
  Status release_machine_locks(uint64_t machine) override;
  void ask_before_touching(std::function<bool()> may_touch) override;
  VolumeAccess& volume() override { return access_; }

 private:
  class Inside;
  class Transfer;
  FileOperations& files() const override { return *now_; }
  bool try_enter();
  Status enter(const Interruption* by);
  void leave();
  enum class Behind { kInterruptible, kMustKnow };  // whether who was interrupted is told what it came to
  template <typename Operation>
  auto inside(const Interruption* by, Operation&& operation, Behind behind = Behind::kInterruptible);
  Status confirm(Clock::time_point began, const Interruption* by) const {
    return has_switched_ ? Status() : confirm_(began, by);
  }

  std::atomic<FileOperations*> now_;
  const Confirm confirm_;
  SwitchedAccess access_;
  std::atomic<bool> has_switched_{false};
  std::atomic<bool> is_closed_{false};
  std::atomic<size_t> inside_{0};
  std::atomic<uint64_t> closings_{0};
  Mutex mutex_;
  CondVar changed_;  // it is open, or nobody is inside
  std::function<bool()> may_touch_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::shared
