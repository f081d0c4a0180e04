// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/member_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "fs/base/slices.h"
#include "fs/operations/joint_transfer.h"

namespace brickfs::shared {
namespace {

constexpr size_t kMostWaiting = kMostSlots / 2;
constexpr std::chrono::milliseconds kLookAtLock{50};

class NoTransfer final : public JointTransfer {
 public:
  bool begin_read(Ino, uint64_t, const LocalSlice&, Touch) override { return false; }
  bool begin_write(Ino, uint64_t, const LocalSlice&, bool) override { return false; }
  bool begin_overwrite(Ino, uint64_t, const LocalSlice&) override { return false; }
  size_t size() const override { return 0; }
  Status move() override { return {}; }
  Status try_move() override { return {}; }
  Result<uint64_t> result(size_t) override { return Error(EINVAL, "nothing was begun"); }
};

std::optional<Who> to_who(const Caller* caller) {
  return caller == nullptr ? std::nullopt : std::optional(shared::to_who(*caller));
}

LockOf to_call(const LockRequest& request) {
  return {request.ino, request.owner.id, request.owner.kind, request.open_file, request.lock};
}

template <typename T>
Status status(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

std::vector<LocalSlice> take(SliceCursor& cursor, uint64_t bytes) {
  std::vector<LocalSlice> taken;
  if (bytes > 0) cursor.take(bytes, taken);
  return taken;
}

}  // namespace

MemberFiles::MemberFiles(std::unique_ptr<CoordinatorLink> link, bool read_only, bool no_atime)
    : link_(std::move(link)), read_only_(read_only), no_atime_(no_atime), access_(*link_) {}

MemberFiles::~MemberFiles() = default;

Status MemberFiles::unmount() {
  const Status synced = read_only_ ? Status() : sync_all({});
  link_->leave();
  return synced;
}

Status MemberFiles::check_writable() const {
  if (read_only_) return Error(EROFS, "this member is read-only");
  return {};
}

// --- references

Result<Attributes> MemberFiles::note(Result<Attributes> attributes) {
  if (!attributes.ok()) return attributes;
  MutexLock lock(mutex_);
  Known& known = known_[attributes->ino];
  ++known.references;
  known.is_regular = S_ISREG(attributes->mode);
  return attributes;
}

void MemberFiles::forget(Ino ino, uint64_t references) {
  {
    MutexLock lock(mutex_);
    const auto known = known_.find(ino);
    if (known == known_.end()) return;
    references = std::min(references, known->second.references);
    known->second.references -= references;
    if (known->second.references == 0) known_.erase(known);
  }
  link_->forget(ino, references);
}

Status MemberFiles::hold(Ino ino) {
  TRY(link_->ask(Hold{ino}, {}));
  MutexLock lock(mutex_);
  ++known_[ino].references;
  return {};
}

std::vector<Ino> MemberFiles::referenced_from(Ino from) const {
  constexpr size_t kAtOnce = 1'024;
  std::vector<Ino> inodes;
  if (raw(from) <= raw(kRootIno)) inodes.push_back(kRootIno);
  MutexLock lock(mutex_);
  for (auto at = known_.lower_bound(from); at != known_.end() && inodes.size() < kAtOnce; ++at)
    if (at->first != kRootIno) inodes.push_back(at->first);
  return inodes;
}

FileOperations::KnownFiles MemberFiles::known_files(Ino from, size_t most) const {
  KnownFiles files;
  MutexLock lock(mutex_);
  auto at = known_.lower_bound(from);
  for (size_t looked = 0; at != known_.end() && looked < most; ++at, ++looked)
    if (at->second.is_regular) files.files.push_back(at->first);
  if (at != known_.end()) files.next = at->first;
  return files;
}

// --- names

Result<Attributes> MemberFiles::lookup(Ino directory, std::string_view name, const OperationContext& context) {
  return note(link_->ask(Lookup{directory, std::string(name)}, context));
}

Result<Attributes> MemberFiles::make(Make::How how, Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                                     std::string_view target, const Caller& caller, const OperationContext& context) {
  TRY(check_writable());
  return note(link_->ask(
      Make{how, directory, std::string(name), mode, rdev, std::string(target), shared::to_who(caller)}, context));
}

Result<Attributes> MemberFiles::create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                       const OperationContext& context) {
  return make(Make::How::kFile, directory, name, mode, 0, {}, caller, context);
}

Result<Attributes> MemberFiles::make_temporary(Ino directory, uint32_t mode, const Caller& caller,
                                               const OperationContext& context) {
  return make(Make::How::kTemporary, directory, {}, mode, 0, {}, caller, context);
}

Result<Attributes> MemberFiles::make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                                          const Caller& caller, const OperationContext& context) {
  return make(Make::How::kNode, directory, name, mode, rdev, {}, caller, context);
}

Result<Attributes> MemberFiles::make_directory(Ino directory, std::string_view name, uint32_t mode,
                                               const Caller& caller, const OperationContext& context) {
  return make(Make::How::kDirectory, directory, name, mode, 0, {}, caller, context);
}

Result<Attributes> MemberFiles::make_symlink(Ino directory, std::string_view name, std::string_view target,
                                             const Caller& caller, const OperationContext& context) {
  return make(Make::How::kSymlink, directory, name, 0, 0, target, caller, context);
}

Result<Attributes> MemberFiles::link(Ino ino, Ino directory, std::string_view name, const OperationContext& context) {
  TRY(check_writable());
  return note(link_->ask(Link{ino, directory, std::string(name)}, context));
}

Status MemberFiles::unlink(Ino directory, std::string_view name, const OperationContext& context) {
  TRY(check_writable());
  return status(link_->ask(Unlink{directory, std::string(name), false}, context));
}

Status MemberFiles::remove_directory(Ino directory, std::string_view name, const OperationContext& context) {
  TRY(check_writable());
  return status(link_->ask(Unlink{directory, std::string(name), true}, context));
}

Result<Renamed> MemberFiles::rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name,
                                    Rename how, const Caller* whiteout, const OperationContext& context) {
  TRY(check_writable());
  return link_->ask(Move{directory, std::string(name), new_directory, std::string(new_name), how, to_who(whiteout)},
                    context);
}

Result<std::string> MemberFiles::read_symlink(Ino ino, const OperationContext& context) {
  return TRY(link_->ask(ReadSymlink{ino}, context)).text;
}

Status MemberFiles::read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor, Touch touch,
                                   const OperationContext& context) {
  bool touches_it = touches(touch);
  while (TRY(read_some(directory, offset, plus, visitor, touches_it, context))) touches_it = false;
  return {};
}

// True: the visitor takes more, and there may be more. References that come with entries which he did not take go back.
Result<bool> MemberFiles::read_some(Ino directory, uint64_t& offset, bool plus, const EntryVisitor& visitor,
                                    bool touches, const OperationContext& context) {
  const Entries found = TRY(link_->ask(ReadDirectory{directory, offset, plus, touches}, context));
  bool takes_more = true;
  for (const Entry& entry : found.entries) {
    const bool refers = entry.attributes.has_value();
    if (refers) (void)note(*entry.attributes);
    const DirectoryEntry shown{entry.name, entry.ino, entry.type, entry.next_offset,
                               refers ? &*entry.attributes : nullptr};
    takes_more = takes_more && visitor(shown);
    if (!takes_more && refers) forget(entry.ino, 1);
    if (takes_more) offset = entry.next_offset;
  }
  return takes_more && !found.are_all && !found.entries.empty();
}

// --- attributes

Result<Attributes> MemberFiles::get_attributes(Ino ino, const OperationContext& context) {
  return link_->ask(GetAttributes{ino}, context);
}

Result<Attributes> MemberFiles::set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                               const OperationContext& context) {
  TRY(check_writable());
  return link_->ask(SetAttributes{ino, change, shared::to_who(caller)}, context);
}

Status MemberFiles::set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags,
                              const Caller& caller, const OperationContext& context) {
  TRY(check_writable());
  return status(link_->ask(
      SetXattr{ino, std::string(name), {value.begin(), value.end()}, flags, shared::to_who(caller)}, context));
}

Result<std::vector<std::byte>> MemberFiles::get_xattr(Ino ino, std::string_view name, const OperationContext& context) {
  return TRY(link_->ask(GetXattr{ino, std::string(name)}, context)).bytes;
}

Result<std::vector<std::byte>> MemberFiles::list_xattr(Ino ino, const Caller& caller, const OperationContext& context) {
  return TRY(link_->ask(ListXattr{ino, shared::to_who(caller)}, context)).bytes;
}

Status MemberFiles::remove_xattr(Ino ino, std::string_view name, const OperationContext& context) {
  TRY(check_writable());
  return status(link_->ask(RemoveXattr{ino, std::string(name)}, context));
}

// --- data

Result<uint64_t> MemberFiles::read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch,
                                   const OperationContext& context) {
  SliceCursor cursor(into);
  const uint64_t wanted = total_bytes(into);
  uint64_t done = 0;
  do {
    const auto here = static_cast<uint32_t>(std::min<uint64_t>(wanted - done, kMostData));
    const uint64_t bytes =
        TRY(link_->read(Read{ino, offset + done, here, touches(touch)}, take(cursor, here), context));
    done += bytes;
    if (bytes < here) break;
  } while (done < wanted);
  return done;
}

// All or an error: of a longer write that fails, what is there is undefined.
Result<uint64_t> MemberFiles::write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                                    const Caller* unprivileged, bool mapped, const OperationContext& context) {
  TRY(check_writable());
  SliceCursor cursor(from);
  const uint64_t wanted = total_bytes(from);
  const std::optional<Who> who = to_who(unprivileged);
  uint64_t done = 0;
  do {
    const uint64_t here = std::min<uint64_t>(wanted - done, kMostData);
    TRY(link_->write(Write{ino, offset + done, append, false, mapped, who}, take(cursor, here), context));
    done += here;
  } while (done < wanted);
  return done;
}

// In one call, or it is left to write().
Result<uint64_t> MemberFiles::overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                                        const OperationContext& context) {
  TRY(check_writable());
  if (total_bytes(from) > kMostData) return Error(ERANGE, "too much for one call");
  return TRY(link_->write(Write{ino, offset, false, true, false, {}}, from, context)).count;
}

std::unique_ptr<JointTransfer> MemberFiles::joint_transfer(const OperationContext&) {
  return std::make_unique<NoTransfer>();
}

Status MemberFiles::allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                             const OperationContext& context) {
  TRY(check_writable());
  return status(link_->ask(Allocate{ino, mode, offset, length, to_who(unprivileged)}, context));
}

Result<FileOperations::Hole> MemberFiles::next_hole(Ino ino, uint64_t offset, const OperationContext& context) {
  return link_->ask(NextHole{ino, offset}, context);
}

Result<uint64_t> MemberFiles::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                                         const Caller* unprivileged, const OperationContext& context) {
  TRY(check_writable());
  return TRY(link_->ask(CopyRange{from, from_offset, to, to_offset, length, to_who(unprivileged)}, context)).count;
}

Status MemberFiles::sync(Ino ino, const OperationContext& context) { return status(link_->ask(Sync{ino}, context)); }

Status MemberFiles::sync_all(const OperationContext& context) { return status(link_->ask(Sync{}, context)); }

// --- locks

Result<std::optional<FileLock>> MemberFiles::find_lock(const LockRequest& request, const OperationContext& context) {
  return TRY(link_->ask(FindLock{to_call(request)}, context)).lock;
}

// Each of those who wait at the coordinator takes a slot; the others look again and again, so that all else finds one.
Status MemberFiles::set_lock(const LockRequest& request, bool waits, const OperationContext& context) {
  const bool waits_there = waits && ++waiting_ <= kMostWaiting;
  Status set = status(link_->ask(SetLock{to_call(request), waits_there}, context));
  while (waits && !waits_there && set.code() == EAGAIN) {
    std::this_thread::sleep_for(kLookAtLock);
    set = Interruption::check(context.interruption);
    if (set.ok()) set = status(link_->ask(SetLock{to_call(request), false}, context));
  }
  if (waits) --waiting_;
  return set;
}

Status MemberFiles::close_locks(Ino ino, const LockOwner& owner, uint64_t open_file) {
  return status(link_->ask(CloseLocks{{ino, owner.id, owner.kind, open_file, {}}}, {}));
}

Status MemberFiles::release_locks(Ino ino, uint64_t, uint64_t open_file) {
  return status(link_->ask(ReleaseLocks{ino, open_file}, {}));
}

// --- the own kernel's page cache

void MemberFiles::note_cached(Ino ino, uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  const auto known = known_.find(ino);
  if (known != known_.end()) known->second.cached.add(offset, length);
}

bool MemberFiles::is_cached(Ino ino, uint64_t offset, uint64_t length) const {
  MutexLock lock(mutex_);
  const auto known = known_.find(ino);
  return known != known_.end() && known->second.cached.touches(offset, length);
}

std::optional<CachedRegions::Range> MemberFiles::take_cached(Ino ino, uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  const auto known = known_.find(ino);
  return known == known_.end() ? std::nullopt : known->second.cached.take(offset, length);
}

}  // namespace brickfs::shared
