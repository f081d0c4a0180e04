// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/leased_files.h"

#include <algorithm>
#include <utility>

namespace brickfs::shared {
namespace {

constexpr Lease kOfNames = Lease::kNames | Lease::kAttributes;  // of a directory whose names change
constexpr Lease kOfData = Lease::kData | Lease::kAttributes;    // of a file whose bytes change

// Writes whose bytes nobody else relies on; the others are left to write().
class LeasedTransfer final : public JointTransfer {
 public:
  LeasedTransfer(std::unique_ptr<JointTransfer> transfer, Leases& leases)
      : transfer_(std::move(transfer)), leases_(leases) {}

  bool begin_read(Ino ino, uint64_t offset, const LocalSlice& into, Touch touch) override {
    return transfer_->begin_read(ino, offset, into, touch);
  }
  bool begin_write(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped) override {
    return changes(ino) && transfer_->begin_write(ino, offset, from, mapped);
  }
  bool begin_overwrite(Ino ino, uint64_t offset, const LocalSlice& from) override {
    return changes(ino) && transfer_->begin_overwrite(ino, offset, from);
  }
  size_t size() const override { return transfer_->size(); }
  Status move() override { return transfer_->move(); }
  Status try_move() override { return transfer_->try_move(); }
  Result<uint64_t> result(size_t i) override { return transfer_->result(i); }

 private:
  bool changes(Ino ino) {
    Leases::Scope scope;
    scope.add(ino, kOfData);
    auto change = leases_.try_begin(scope);
    if (!change) return false;
    changes_.push_back(std::move(*change));
    return true;
  }

  std::vector<Leases::Change> changes_;  // end behind the transfer
  const std::unique_ptr<JointTransfer> transfer_;
  Leases& leases_;
};

}  // namespace

Result<Leases::Change> LeasedFiles::change(Ino ino, Lease kinds, const OperationContext& context) {
  Leases::Scope scope;
  scope.add(ino, kinds);
  return leases_.begin(scope, context.machine, context.interruption);
}

// kNoIno: there is none, or it cannot be known: the operation says so itself.
Ino LeasedFiles::inode_of(Ino directory, std::string_view name, const OperationContext& context) {
  const auto found = files_.lookup(directory, name, context);
  if (!found.ok()) return kNoIno;
  files_.forget(found->ino, 1);
  return found->ino;
}

// --- names

// `also`: an inode that gets one more.
template <typename Add>
Result<Attributes> LeasedFiles::add_name(Ino directory, Ino also, const OperationContext& context, Add&& add) {
  const auto names = TRY(names_.lock_shared(directory, context.interruption));
  Leases::Scope scope;
  scope.add(directory, kOfNames);
  scope.add(also, Lease::kAttributes);
  const auto change = TRY(leases_.begin(scope, context.machine, context.interruption));
  return add();
}

Result<Attributes> LeasedFiles::create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                       const OperationContext& context) {
  return add_name(directory, kNoIno, context, [&] { return files_.create(directory, name, mode, caller, context); });
}

Result<Attributes> LeasedFiles::make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                                          const Caller& caller, const OperationContext& context) {
  return add_name(directory, kNoIno, context,
                  [&] { return files_.make_node(directory, name, mode, rdev, caller, context); });
}

Result<Attributes> LeasedFiles::make_directory(Ino directory, std::string_view name, uint32_t mode,
                                               const Caller& caller, const OperationContext& context) {
  return add_name(directory, kNoIno, context,
                  [&] { return files_.make_directory(directory, name, mode, caller, context); });
}

Result<Attributes> LeasedFiles::make_symlink(Ino directory, std::string_view name, std::string_view target,
                                             const Caller& caller, const OperationContext& context) {
  return add_name(directory, kNoIno, context,
                  [&] { return files_.make_symlink(directory, name, target, caller, context); });
}

Result<Attributes> LeasedFiles::link(Ino ino, Ino directory, std::string_view name, const OperationContext& context) {
  return add_name(directory, ino, context, [&] { return files_.link(ino, directory, name, context); });
}

Status LeasedFiles::remove(Ino directory, std::string_view name, bool is_directory, const OperationContext& context) {
  if (const auto unseen = leases_.begin_unseen())
    return is_directory ? files_.remove_directory(directory, name, context) : files_.unlink(directory, name, context);
  const auto names = TRY(names_.lock_alone(directory, context.interruption));
  const Ino ino = inode_of(directory, name, context);
  const bool has_dropped_it = std::ranges::find(context.dropped, ino) != context.dropped.end();
  Leases::Scope scope;
  scope.add(directory, kOfNames);
  scope.add(ino, kOfNames, has_dropped_it);
  const auto change = TRY(leases_.begin(scope, context.machine, context.interruption));
  return is_directory ? files_.remove_directory(directory, name, context) : files_.unlink(directory, name, context);
}

Status LeasedFiles::unlink(Ino directory, std::string_view name, const OperationContext& context) {
  return remove(directory, name, false, context);
}

Status LeasedFiles::remove_directory(Ino directory, std::string_view name, const OperationContext& context) {
  return remove(directory, name, true, context);
}

// What is moved has another "..", if it is a directory.
Result<Renamed> LeasedFiles::rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name,
                                    Rename how, const Caller* whiteout, const OperationContext& context) {
  if (const auto unseen = leases_.begin_unseen())
    return files_.rename(directory, name, new_directory, new_name, how, whiteout, context);
  const auto names = TRY(names_.lock_alone(directory, new_directory, context.interruption));
  Leases::Scope scope;
  scope.add(directory, kOfNames);
  scope.add(new_directory, kOfNames);
  for (const Ino ino : {inode_of(directory, name, context), inode_of(new_directory, new_name, context)})
    scope.add(ino, kOfNames, std::ranges::find(context.dropped, ino) != context.dropped.end());
  const auto change = TRY(leases_.begin(scope, context.machine, context.interruption));
  return files_.rename(directory, name, new_directory, new_name, how, whiteout, context);
}

// --- attributes

Result<Attributes> LeasedFiles::set_attributes(Ino ino, const AttributeChange& wanted, const Caller& caller,
                                               const OperationContext& context) {
  const auto changing = TRY(change(ino, wanted.size_bytes ? kOfData : Lease::kAttributes, context));
  return files_.set_attributes(ino, wanted, caller, context);
}

Status LeasedFiles::set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags,
                              const Caller& caller, const OperationContext& context) {
  const auto changing = TRY(change(ino, Lease::kAttributes, context));
  return files_.set_xattr(ino, name, value, flags, caller, context);
}

Status LeasedFiles::remove_xattr(Ino ino, std::string_view name, const OperationContext& context) {
  const auto changing = TRY(change(ino, Lease::kAttributes, context));
  return files_.remove_xattr(ino, name, context);
}

// --- data

Result<uint64_t> LeasedFiles::write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                                    const Caller* unprivileged, bool mapped, const OperationContext& context) {
  const auto changing = TRY(change(ino, kOfData, context));
  return files_.write(ino, offset, from, append, unprivileged, mapped, context);
}

Result<uint64_t> LeasedFiles::overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                                        const OperationContext& context) {
  const auto changing = TRY(change(ino, kOfData, context));
  return files_.overwrite(ino, offset, from, context);
}

Result<uint64_t> LeasedFiles::write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                                          const OperationContext& context) {
  const auto changing = TRY(change(ino, kOfData, context));
  return files_.write_units(ino, filled, unprivileged, context);
}

std::unique_ptr<JointTransfer> LeasedFiles::joint_transfer(const OperationContext& context) {
  return std::make_unique<LeasedTransfer>(files_.joint_transfer(context), leases_);
}

Status LeasedFiles::allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                             const OperationContext& context) {
  const auto changing = TRY(change(ino, kOfData, context));
  return files_.allocate(ino, mode, offset, length, unprivileged, context);
}

Result<uint64_t> LeasedFiles::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                                         const Caller* unprivileged, const OperationContext& context) {
  const auto changing = TRY(change(to, kOfData, context));
  return files_.copy_range(from, from_offset, to, to_offset, length, unprivileged, context);
}

Status LeasedFiles::cover_lost(Ino ino, uint64_t end) {
  const auto changing = TRY(change(ino, kOfData, {}));
  return files_.cover_lost(ino, end);
}

}  // namespace brickfs::shared
