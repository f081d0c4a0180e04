// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/switched_files.h"

#include <cerrno>
#include <chrono>
#include <type_traits>
#include <utility>

namespace brickfs::shared {
namespace {

constexpr std::chrono::milliseconds kEndWaitingAgain{5};

// An error that tells of the way to the bricks, and of no file.
bool shows_nothing(int code) { return code == EIO || code == EINTR || code == ESTALE || code == ECANCELED; }

// Keys are those of memory that is registered; 0: it is not.
std::vector<LocalSlice> without_keys(std::span<const LocalSlice> slices) {
  std::vector<LocalSlice> copy(slices.begin(), slices.end());
  for (LocalSlice& slice : copy) slice.local_key = 0;
  return copy;
}

}  // namespace

void SwitchedAccess::interrupt() {
  is_interrupted_ = true;
  now().interrupt();
}

// --- the gate

// Counted before it is looked at, as it is closed before they are counted.
bool SwitchedFiles::try_enter() {
  ++inside_;
  if (!is_closed_) return true;
  leave();
  return false;
}

Status SwitchedFiles::enter(const Interruption* by) {
  while (!try_enter()) {
    MutexLock lock(mutex_);
    while (is_closed_) TRY(wait_interruptibly(changed_, lock, by));
  }
  return {};
}

void SwitchedFiles::leave() {
  if (--inside_ > 0 || !is_closed_) return;
  MutexLock lock(mutex_);
  changed_.notify_all();
}

class SwitchedFiles::Inside {
 public:
  explicit Inside(SwitchedFiles& files) : files_(files) {}  // that have been entered
  ~Inside() { files_.leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  SwitchedFiles& files_;
};

void SwitchedFiles::close(const std::function<void()>& end_waiting) {
  ++closings_;
  is_closed_ = true;
  MutexLock lock(mutex_);
  while (inside_ > 0) {
    end_waiting();  // one that was about to wait does so by now
    if (inside_ > 0) changed_.wait_for(lock, kEndWaitingAgain);
  }
}

void SwitchedFiles::switch_to(FileOperations& next) {
  MutexLock lock(mutex_);
  next.ask_before_touching(may_touch_);
  now_ = &next;
  has_switched_ = true;
  if (access_.is_interrupted()) next.volume().interrupt();
  is_closed_ = false;
  changed_.notify_all();
}

template <typename Operation>
auto SwitchedFiles::inside(const Interruption* by, Operation&& operation, Behind behind) {
  using Answer = std::invoke_result_t<Operation, FileOperations&>;
  const auto began = Clock::now();
  if (const Status entered = enter(by); !entered.ok()) return Answer(entered.error());
  const Inside inside(*this);
  if (const Status confirmed = confirm(began, by); !confirmed.ok()) return Answer(confirmed.error());
  Answer answer = operation(files());
  if (shows_nothing(answer.code())) return answer;
  const Interruption* const interrupts = behind == Behind::kMustKnow ? nullptr : by;
  if (const Status confirmed = confirm(began, interrupts); !confirmed.ok()) return Answer(confirmed.error());
  return answer;
}

// --- names

Result<Attributes> SwitchedFiles::lookup(Ino directory, std::string_view name, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.lookup(directory, name, context); });
}

void SwitchedFiles::forget(Ino ino, uint64_t references) {
  (void)enter(nullptr);
  const Inside inside(*this);
  files().forget(ino, references);
}

Status SwitchedFiles::hold(Ino ino) {
  return inside(nullptr, [&](FileOperations& files) { return files.hold(ino); });
}

Result<Attributes> SwitchedFiles::create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                         const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.create(directory, name, mode, caller, context); });
}

Result<Attributes> SwitchedFiles::make_temporary(Ino directory, uint32_t mode, const Caller& caller,
                                                 const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.make_temporary(directory, mode, caller, context); });
}

Result<Attributes> SwitchedFiles::make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                                            const Caller& caller, const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.make_node(directory, name, mode, rdev, caller, context); });
}

Result<Attributes> SwitchedFiles::make_directory(Ino directory, std::string_view name, uint32_t mode,
                                                 const Caller& caller, const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.make_directory(directory, name, mode, caller, context); });
}

Result<Attributes> SwitchedFiles::make_symlink(Ino directory, std::string_view name, std::string_view target,
                                               const Caller& caller, const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.make_symlink(directory, name, target, caller, context); });
}

Result<Attributes> SwitchedFiles::link(Ino ino, Ino directory, std::string_view name, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.link(ino, directory, name, context); });
}

Status SwitchedFiles::unlink(Ino directory, std::string_view name, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.unlink(directory, name, context); });
}

Status SwitchedFiles::remove_directory(Ino directory, std::string_view name, const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.remove_directory(directory, name, context); });
}

Result<Renamed> SwitchedFiles::rename(Ino directory, std::string_view name, Ino new_directory,
                                      std::string_view new_name, Rename how, const Caller* whiteout,
                                      const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) {
    return files.rename(directory, name, new_directory, new_name, how, whiteout, context);
  });
}

Result<std::string> SwitchedFiles::read_symlink(Ino ino, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.read_symlink(ino, context); });
}

Status SwitchedFiles::read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor,
                                     Touch touch, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) {
    return files.read_directory(directory, offset, plus, visitor, touch, context);
  });
}

// --- attributes

Result<Attributes> SwitchedFiles::get_attributes(Ino ino, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.get_attributes(ino, context); });
}

Result<Attributes> SwitchedFiles::set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                                 const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.set_attributes(ino, change, caller, context); });
}

Status SwitchedFiles::set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags,
                                const Caller& caller, const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.set_xattr(ino, name, value, flags, caller, context); });
}

Result<std::vector<std::byte>> SwitchedFiles::get_xattr(Ino ino, std::string_view name,
                                                        const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.get_xattr(ino, name, context); });
}

Result<std::vector<std::byte>> SwitchedFiles::list_xattr(Ino ino, const Caller& caller,
                                                         const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.list_xattr(ino, caller, context); });
}

Status SwitchedFiles::remove_xattr(Ino ino, std::string_view name, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.remove_xattr(ino, name, context); });
}

// --- data

Result<uint64_t> SwitchedFiles::read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch,
                                     const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) {
    if (!has_switched_) return files.read(ino, offset, into, touch, context);
    return files.read(ino, offset, without_keys(into), touch, context);
  });
}

Result<uint64_t> SwitchedFiles::write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                                      const Caller* unprivileged, bool mapped, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) {
    if (!has_switched_) return files.write(ino, offset, from, append, unprivileged, mapped, context);
    return files.write(ino, offset, without_keys(from), append, unprivileged, mapped, context);
  });
}

Result<uint64_t> SwitchedFiles::overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                                          const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) {
    if (!has_switched_) return files.overwrite(ino, offset, from, context);
    return files.overwrite(ino, offset, without_keys(from), context);
  });
}

Result<uint64_t> SwitchedFiles::write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                                            const OperationContext& context) {
  return inside(context.interruption,
                [&](FileOperations& files) { return files.write_units(ino, filled, unprivileged, context); });
}

// One that finds it closed, or would wait for the bricks, leaves its transfers to read() and write().
class SwitchedFiles::Transfer final : public JointTransfer {
 public:
  Transfer(SwitchedFiles& files, const OperationContext& context) : files_(files), context_(context) {}

  bool begin_read(Ino ino, uint64_t offset, const LocalSlice& into, Touch touch) override {
    return begin() && transfer_->begin_read(ino, offset, into, touch);
  }
  bool begin_write(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped) override {
    return begin() && transfer_->begin_write(ino, offset, from, mapped);
  }
  bool begin_overwrite(Ino ino, uint64_t offset, const LocalSlice& from) override {
    return begin() && transfer_->begin_overwrite(ino, offset, from);
  }
  size_t size() const override { return transfer_ ? transfer_->size() : 0; }
  Status move() override { return confirmed(transfer_ ? transfer_->move() : Status()); }
  Status try_move() override { return confirmed(transfer_ ? transfer_->try_move() : Status()); }
  Result<uint64_t> result(size_t i) override {
    if (!transfer_) return Error(EINVAL, "nothing was begun");
    return transfer_->result(i);
  }

 private:
  bool begin() {
    if (transfer_) return true;
    if (!files_.try_enter()) return false;
    inside_.emplace(files_);
    Interruption without_waiting;
    without_waiting.raise();
    if (!files_.confirm(began_, &without_waiting).ok()) {
      inside_.reset();
      return false;
    }
    transfer_ = files_.files().joint_transfer(context_);
    return true;
  }
  Status confirmed(const Status& moved) const {
    TRY(Status(moved));
    return files_.confirm(began_, context_.interruption);
  }

  SwitchedFiles& files_;
  const Clock::time_point began_ = Clock::now();
  const OperationContext context_;
  std::optional<Inside> inside_;  // ends behind the transfer
  std::unique_ptr<JointTransfer> transfer_;
};

std::unique_ptr<JointTransfer> SwitchedFiles::joint_transfer(const OperationContext& context) {
  return std::make_unique<Transfer>(*this, context);
}

Status SwitchedFiles::allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                               const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) {
    return files.allocate(ino, mode, offset, length, unprivileged, context);
  });
}

Result<FileOperations::Hole> SwitchedFiles::next_hole(Ino ino, uint64_t offset, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.next_hole(ino, offset, context); });
}

Result<uint64_t> SwitchedFiles::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                                           const Caller* unprivileged, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) {
    return files.copy_range(from, from_offset, to, to_offset, length, unprivileged, context);
  });
}

Status SwitchedFiles::cover_lost(Ino ino, uint64_t end) {
  return inside(nullptr, [&](FileOperations& files) { return files.cover_lost(ino, end); });
}

Status SwitchedFiles::sync(Ino ino, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.sync(ino, context); });
}

Status SwitchedFiles::sync_all(const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.sync_all(context); });
}

// --- locks

Result<std::optional<FileLock>> SwitchedFiles::find_lock(const LockRequest& request, const OperationContext& context) {
  return inside(context.interruption, [&](FileOperations& files) { return files.find_lock(request, context); });
}

// Whose waiting was ended by close() waits for it where it is asked for now.
Status SwitchedFiles::set_lock(const LockRequest& request, bool waits, const OperationContext& context) {
  while (true) {
    const uint64_t closings = closings_;
    const Status set = inside(
        context.interruption, [&](FileOperations& files) { return files.set_lock(request, waits, context); },
        Behind::kMustKnow);
    const bool was_ended = waits && set.code() == EINTR && closings_ != closings;
    if (!was_ended || !Interruption::check(context.interruption).ok()) return set;
  }
}

Status SwitchedFiles::close_locks(Ino ino, const LockOwner& owner, uint64_t open_file,
                                  const OperationContext& context) {
  (void)enter(nullptr);
  const Inside inside(*this);
  return files().close_locks(ino, owner, open_file, context);
}

Status SwitchedFiles::release_locks(Ino ino, uint64_t machine, uint64_t open_file) {
  (void)enter(nullptr);
  const Inside inside(*this);
  return files().release_locks(ino, machine, open_file);
}

Status SwitchedFiles::release_machine_locks(uint64_t machine) {
  return inside(nullptr, [&](FileOperations& files) { return files.release_machine_locks(machine); });
}

// --- the own kernel

void SwitchedFiles::ask_before_touching(std::function<bool()> may_touch) {
  MutexLock lock(mutex_);
  may_touch_ = may_touch;
  files().ask_before_touching(std::move(may_touch));
}

}  // namespace brickfs::shared
