// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/member_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "fs/base/clock.h"
#include "fs/base/slices.h"
#include "fs/operations/joint_transfer.h"
#include "fs/operations/link_attribute.h"

namespace brickfs::shared {
namespace {

constexpr size_t kMostWaiting = kMostSlots / 2;
constexpr std::chrono::milliseconds kLookAtLock{50};
constexpr uint32_t kMostAtOnce = 32;  // entries with attributes: as many as the kernel takes of common names

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

MemberFiles::MemberFiles(std::unique_ptr<CoordinatorLink> link, MemberBricks::Open open_brick, bool read_only,
                         bool no_atime)
    : data_(open_brick == nullptr ? nullptr
                                  : std::make_unique<MemberData>(
                                        std::move(open_brick), link->session(),
                                        [link = link.get()](const GetLayout& asked, const OperationContext& context) {
                                          return link->ask(asked, context);
                                        },
                                        link->held())),
      link_(std::move(link)),
      held_(link_->held()),
      read_only_(read_only),
      no_atime_(no_atime),
      access_(*link_, data_.get()),
      units_(make_units()) {
  link_->set_data(data_.get());
  link_->set_units(units_.get());
  link_->set_claims([this] { return claims(); });
}

MemberFiles::~MemberFiles() {
  link_->stop();
  link_->set_units(nullptr);
  link_->set_data(nullptr);
}

Status MemberFiles::unmount() {
  const Status synced = read_only_ ? Status() : sync_all({});
  link_->leave();
  return synced;
}

// The coordinator learns of them by the next claims.
void MemberFiles::take_up(std::span<const Referenced> referenced, std::span<const LockRequest> locks) {
  MutexLock lock(mutex_);
  for (const Referenced& each : referenced) {
    Known& known = known_[each.ino];
    known.references += each.references;
    known.is_regular = each.is_regular;
  }
  for (const LockRequest& each : locks) locks_.note(each);
}

Status MemberFiles::check_writable() const {
  if (read_only_) return Error(EROFS, "this member is read-only");
  return {};
}

// --- references

// The answer may be a former coordinator's, and what it gives not among what was claimed of the next one: so that one
// is asked for it. Once too often does no harm.
Attributes MemberFiles::note(const Attributes& attributes, uint64_t epoch) {
  {
    MutexLock lock(mutex_);
    Known& known = known_[attributes.ino];
    ++known.references;
    ++known.given;
    known.is_regular = S_ISREG(attributes.mode);
  }
  if (link_->epoch() != epoch) (void)link_->ask(Hold{attributes.ino}, {});
  return attributes;
}

// All that a new coordinator has to know: what our kernel refers to, and the locks that programs have. What was given
// back is not among that, so it is not given back once more. Nothing that the former one has leased is relied on any
// more.
std::vector<Claim> MemberFiles::claims() {
  constexpr size_t kAtOnce = kMostFields / 64;
  std::vector<Claim> claims;
  const auto part = [&claims]() -> Claim& {
    if (claims.empty() ||
        claims.back().inodes.size() + claims.back().locks.size() + claims.back().by_pages.size() == kAtOnce)
      claims.emplace_back();
    return claims.back();
  };
  held_.let_go();
  if (data_ != nullptr) data_->lapse();
  if (units_ != nullptr) units_->let_go();
  {
    MutexLock lock(mutex_);
    link_->drop_untold();
    for (auto& [ino, known] : known_) {
      known.given = 1;
      part().inodes.push_back({ino, 1});
    }
  }
  for (const LockRequest& lock : locks_.all()) part().locks.push_back(to_call(lock));
  if (pages_ == nullptr) return claims;
  pages_->drop_soon();
  for (const Ino ino : pages_->files()) part().by_pages.push_back(ino);
  return claims;
}

// One more of what the coordinator knows us to refer to.
bool MemberFiles::refer_again(Ino ino) {
  MutexLock lock(mutex_);
  const auto known = known_.find(ino);
  if (known == known_.end()) return false;
  ++known->second.references;
  return true;
}

// Only of such inodes anything is kept: all others may go.
bool MemberFiles::refers_to(Ino ino) const {
  MutexLock lock(mutex_);
  return ino == kRootIno || known_.contains(ino);
}

// The coordinator is told of the last one.
void MemberFiles::forget(Ino ino, uint64_t references) {
  MutexLock lock(mutex_);  // so that a claim knows of it, or it is told
  const auto known = known_.find(ino);
  if (known == known_.end()) return;
  known->second.references -= std::min(references, known->second.references);
  if (known->second.references > 0) return;
  const uint64_t given = known->second.given;
  known_.erase(known);
  held_.forget(ino);
  if (data_ != nullptr) data_->forget(ino);
  if (pages_ != nullptr) pages_->forget(ino);
  link_->forget(ino, given);
}

// The change is known before what is held goes: nothing of before is kept in between.
void MemberFiles::change_data(Held::Change& change, Ino ino) {
  change.of_data(ino);
  if (data_ != nullptr) data_->drop(ino);
}

Status MemberFiles::hold(Ino ino) {
  if (refer_again(ino)) return {};
  TRY(link_->ask(Hold{ino}, {}));
  MutexLock lock(mutex_);
  Known& known = known_[ino];
  ++known.references;
  ++known.given;
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
  if (const auto ino = held_.named(directory, name)) {
    if (*ino == kNoIno) return Error(ENOENT, "no such name");
    const auto attributes = held_.attributes(*ino);
    if (attributes && refer_again(*ino)) return *attributes;
  }
  const uint64_t epoch = link_->epoch();
  const Held::Asking asking(held_);
  const Found found = TRY(link_->ask(Lookup{directory, std::string(name)}, context));
  const Ino ino = found.inode ? found.inode->attributes.ino : kNoIno;
  held_.keep_name(asking, directory, found.directory, name, ino);
  if (!found.inode) return Error(ENOENT, "no such name");
  const Attributes attributes = note(found.inode->attributes, epoch);
  held_.keep(asking, *found.inode);
  return attributes;
}

// `also`: an inode that gets one more name.
template <typename Asked>
Result<Attributes> MemberFiles::add_name(Ino directory, std::string_view name, Ino also, const Asked& asked,
                                         const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  if (!name.empty()) change.of(directory, name);
  if (also != kNoIno) change.of(also);
  const uint64_t epoch = link_->epoch();
  const Held::Asking asking(held_);
  const LeasedAttributes made = TRY(link_->ask(asked, context, &change));
  const Attributes attributes = note(made.attributes, epoch);
  change.now_named(asking, directory, name, made.attributes.ino);
  also == kNoIno ? held_.keep(asking, made) : change.now_is(asking, made);
  return attributes;
}

Result<Attributes> MemberFiles::make(Make::How how, Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                                     std::string_view target, const Caller& caller, const OperationContext& context) {
  const Make asked{how, directory, std::string(name), mode, rdev, std::string(target), shared::to_who(caller)};
  return add_name(directory, name, kNoIno, asked, context);
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
  return add_name(directory, name, ino, Link{ino, directory, std::string(name)}, context);
}

// What the names are believed to have is changed, too.
std::vector<Ino> MemberFiles::drop_named(Held::Change& change, std::initializer_list<Name> names) {
  std::vector<Ino> dropped;
  for (const Name& each : names) {
    const Ino ino = held_.named(each.directory, each.name).value_or(kNoIno);
    change.of(each.directory, each.name);
    if (ino == kNoIno) continue;
    change.of(ino);
    change.of_names(ino);
    dropped.push_back(ino);
  }
  return dropped;
}

Status MemberFiles::remove(Ino directory, std::string_view name, bool is_directory, const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  auto dropped = drop_named(change, {{directory, name}});
  const Held::Asking asking(held_);
  TRY(link_->ask(Unlink{directory, std::string(name), is_directory, std::move(dropped)}, context, &change));
  change.now_named(asking, directory, name, kNoIno);
  return {};
}

Status MemberFiles::unlink(Ino directory, std::string_view name, const OperationContext& context) {
  return remove(directory, name, false, context);
}

Status MemberFiles::remove_directory(Ino directory, std::string_view name, const OperationContext& context) {
  return remove(directory, name, true, context);
}

Result<Renamed> MemberFiles::rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name,
                                    Rename how, const Caller* whiteout, const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  auto dropped = drop_named(change, {{directory, name}, {new_directory, new_name}});
  const Held::Asking asking(held_);
  const Renamed renamed = TRY(link_->ask(Move{directory, std::string(name), new_directory, std::string(new_name), how,
                                              to_who(whiteout), std::move(dropped)},
                                         context, &change));
  const bool is_nothing = renamed.moved == kNoIno || (directory == new_directory && name == new_name);
  if (is_nothing) return renamed;
  change.now_named(asking, new_directory, new_name, renamed.moved);
  if (whiteout == nullptr) change.now_named(asking, directory, name, renamed.exchanged);
  return renamed;
}

Result<std::string> MemberFiles::read_symlink(Ino ino, const OperationContext& context) {
  if (auto target = held_.target(ino)) return *std::move(target);
  const Held::Asking asking(held_);
  const LeasedText found = TRY(link_->ask(ReadSymlink{ino}, context));
  if (refers_to(ino)) held_.keep_target(asking, ino, found);
  return found.text;
}

Status MemberFiles::read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor, Touch touch,
                                   const OperationContext& context) {
  bool touches_it = touches(directory, touch);
  const auto listing = touches_it ? nullptr : held_.listing(directory);
  if (listing && show(*listing, offset, plus, visitor)) return {};
  Held::Change change(held_);
  if (touches_it) change.of(directory);
  while (TRY(read_some(directory, offset, plus, visitor, touches_it, context))) touches_it = false;
  return {};
}

// From memory. False: it has not what is asked for: that offset, or with `plus` attributes of the entry there.
bool MemberFiles::show(const std::vector<Held::Listed>& listing, uint64_t offset, bool plus,
                       const EntryVisitor& visitor) {
  auto at = listing.begin();
  if (offset != 0) {
    at = std::ranges::lower_bound(listing, offset, {}, &Held::Listed::next_offset);
    if (at == listing.end() || at->next_offset != offset) return false;
    ++at;
  }
  for (bool is_first = true; at != listing.end(); ++at, is_first = false) {
    std::optional<Attributes> attributes;
    if (plus && at->name != "." && at->name != "..") {
      attributes = held_.attributes(at->ino);
      if (!attributes || !refer_again(at->ino)) return !is_first;
    }
    const DirectoryEntry shown{at->name, at->ino, at->type, at->next_offset, attributes ? &*attributes : nullptr};
    if (visitor(shown)) continue;
    if (attributes) forget(at->ino, 1);
    break;
  }
  return true;
}

// True: the visitor takes more, and there may be more. References that come with entries which he did not take go back.
Result<bool> MemberFiles::read_some(Ino directory, uint64_t& offset, bool plus, const EntryVisitor& visitor,
                                    bool touches, const OperationContext& context) {
  const Held::Asking asking(held_);
  const uint64_t epoch = link_->epoch();
  const uint32_t most = plus ? kMostAtOnce : kMostEntries;
  Entries found = TRY(link_->ask(ReadDirectory{directory, offset, plus, touches, most}, context));
  const uint64_t from = offset;
  size_t taken = 0;
  for (const Entry& entry : found.entries) {
    const bool refers = entry.attributes.has_value();
    if (refers) (void)note(entry.attributes->attributes, epoch);
    const DirectoryEntry shown{entry.name, entry.ino, entry.type, entry.next_offset,
                               refers ? &entry.attributes->attributes : nullptr};
    const bool takes_it = &entry == &found.entries[taken] && visitor(shown);
    if (!takes_it && refers) forget(entry.ino, 1);
    if (!takes_it) continue;
    ++taken;
    offset = entry.next_offset;
    if (refers) held_.keep(asking, *entry.attributes);
  }
  const bool takes_more = taken == found.entries.size();
  found.are_all = found.are_all && takes_more;
  found.entries.resize(taken);
  held_.keep_entries(asking, directory, from, found);
  return takes_more && !found.are_all && taken > 0;
}

// --- attributes

bool MemberFiles::may_be_touched(Touch touch) const {
  return touch == Touch::kAtime && !no_atime_ && !read_only_ && (!may_touch_ || may_touch_());
}

// Whether reading it is to change its time of reading, as far as that can be known here.
bool MemberFiles::touches(Ino ino, Touch touch) const {
  if (!may_be_touched(touch)) return false;
  const auto known = held_.attributes(ino);
  return !known || is_relatime_due(known->atime, known->mtime, known->ctime, now());
}

Result<Attributes> MemberFiles::get_attributes(Ino ino, const OperationContext& context) {
  if (const auto attributes = held_.attributes(ino)) return *attributes;
  const Held::Asking asking(held_);
  const LeasedAttributes found = TRY(link_->ask(GetAttributes{ino}, context));
  if (refers_to(ino)) held_.keep(asking, found);
  return found.attributes;
}

Result<Attributes> MemberFiles::set_attributes(Ino ino, const AttributeChange& wanted, const Caller& caller,
                                               const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  wanted.size_bytes ? change_data(change, ino) : change.of(ino);
  const Held::Asking asking(held_);
  const LeasedAttributes now = TRY(link_->ask(SetAttributes{ino, wanted, shared::to_who(caller)}, context, &change));
  change.now_is(asking, now);
  return now.attributes;
}

Status MemberFiles::set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags,
                              const Caller& caller, const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  change.of(ino);
  return status(link_->ask(
      SetXattr{ino, std::string(name), {value.begin(), value.end()}, flags, shared::to_who(caller)}, context, &change));
}

Result<std::vector<std::byte>> MemberFiles::get_xattr(Ino ino, std::string_view name, const OperationContext& context) {
  if (ino == kRootIno && name == kLinkAttribute) return describe_link(*this);
  auto value = held_.xattr(ino, name);
  if (!value) {
    const Held::Asking asking(held_);
    LeasedXattr found = TRY(link_->ask(GetXattr{ino, std::string(name)}, context));
    if (refers_to(ino)) held_.keep_xattr(asking, ino, name, found);
    value = std::move(found.bytes);
  }
  if (!*value) return Error(ENODATA, "no such attribute");
  return **std::move(value);
}

Result<std::vector<std::byte>> MemberFiles::list_xattr(Ino ino, const Caller& caller, const OperationContext& context) {
  const Who who = shared::to_who(caller);
  if (auto names = held_.xattr_names(ino, who.is_administrator)) return *std::move(names);
  const Held::Asking asking(held_);
  LeasedXattr found = TRY(link_->ask(ListXattr{ino, who}, context));
  if (refers_to(ino)) held_.keep_xattr_names(asking, ino, who.is_administrator, found);
  return found.bytes.value_or(std::vector<std::byte>());
}

Status MemberFiles::remove_xattr(Ino ino, std::string_view name, const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  change.of(ino);
  return status(link_->ask(RemoveXattr{ino, std::string(name)}, context, &change));
}

// --- data

Result<uint64_t> MemberFiles::read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch,
                                   const OperationContext& context) {
  if (data_ != nullptr) {
    if (const auto done = data_->read(ino, offset, into, may_be_touched(touch), context)) return *done;
  }
  const bool touches_it = touches(ino, touch);
  Held::Change change(held_);
  if (touches_it) change.of(ino);
  SliceCursor cursor(into);
  const uint64_t wanted = total_bytes(into);
  uint64_t done = 0;
  do {
    const auto here = static_cast<uint32_t>(std::min<uint64_t>(wanted - done, kMostData));
    const uint64_t bytes = TRY(link_->read(Read{ino, offset + done, here, touches_it}, take(cursor, here), context));
    done += bytes;
    if (bytes < here) break;
  } while (done < wanted);
  return done;
}

std::unique_ptr<JointTransfer> MemberFiles::joint_transfer(const OperationContext&) {
  return std::make_unique<NoTransfer>();
}

Status MemberFiles::allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                             const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  change_data(change, ino);
  return status(link_->ask(Allocate{ino, mode, offset, length, to_who(unprivileged)}, context, &change));
}

Result<FileOperations::Hole> MemberFiles::next_hole(Ino ino, uint64_t offset, const OperationContext& context) {
  return link_->ask(NextHole{ino, offset}, context);
}

Result<uint64_t> MemberFiles::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                                         const Caller* unprivileged, const OperationContext& context) {
  TRY(check_writable());
  Held::Change change(held_);
  change_data(change, to);
  const CopyRange asked{from, from_offset, to, to_offset, length, to_who(unprivileged)};
  return TRY(link_->ask(asked, context, &change)).count;
}

Status MemberFiles::sync(Ino ino, const OperationContext& context) { return status(link_->ask(Sync{ino}, context)); }

Status MemberFiles::sync_all(const OperationContext& context) { return status(link_->ask(Sync{}, context)); }

// --- locks

Result<std::optional<FileLock>> MemberFiles::find_lock(const LockRequest& request, const OperationContext& context) {
  return TRY(link_->ask(FindLock{to_call(request)}, context)).lock;
}

// Each of those who wait at the coordinator takes a slot; the others look again and again, so that all else finds one.
Status MemberFiles::set_lock(const LockRequest& request, bool waits, const OperationContext& context) {
  TRY(link_->await_released(request.ino, context));
  // One that goes is noted first: it may be another's before the answer is here.
  if (request.lock.mode == LockMode::kUnlocked) locks_.note(request);
  const bool waits_there = waits && ++waiting_ <= kMostWaiting;
  Status set = status(link_->ask(SetLock{to_call(request), waits_there}, context));
  while (waits && !waits_there && set.code() == EAGAIN) {
    std::this_thread::sleep_for(kLookAtLock);
    set = Interruption::check(context.interruption);
    if (set.ok()) set = status(link_->ask(SetLock{to_call(request), false}, context));
  }
  if (waits) --waiting_;
  if (set.ok() && request.lock.mode != LockMode::kUnlocked) locks_.note(request);
  return set;
}

Status MemberFiles::close_locks(Ino ino, const LockOwner& owner, uint64_t open_file, const OperationContext& context) {
  locks_.release_owner(ino, owner, open_file);
  return release(CloseLocks{{ino, owner.id, owner.kind, open_file, {}}}, context);
}

Status MemberFiles::release_locks(Ino ino, uint64_t machine, uint64_t open_file) {
  locks_.release_open_file(ino, machine, open_file);
  return release(ReleaseLocks{ino, open_file}, {});
}

// A coordinator who is away is told later: nobody who closes files is to wait for him for long.
template <typename Asked>
Status MemberFiles::release(const Asked& asked, const OperationContext& context) {
  const bool waits = context.interruption != nullptr || !link_->is_away();
  const Status told = waits ? status(link_->ask(asked, context)) : Status(Error(EIO, "the coordinator is away"));
  if (told.code() == EINTR || told.code() == EIO) link_->release_later(asked);
  return told;
}

}  // namespace brickfs::shared
