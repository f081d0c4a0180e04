// SPDX-License-Identifier: Apache-2.0
// What a member of a shared volume asks its coordinator: each operation of FileOperations as a struct, with its fields
// (fs/shared/codec.h) and what is answered. docs/protocol.md, "Shared volumes". A new one is a struct here, at the end
// of Request, what the coordinator does about it (served_call.cc), and who asks for it (member_files.cc).
//
// Bytes of files are no fields: they stand behind those, of a Write and GiveBytes in the call and of a Read in its
// answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "fs/base/ids.h"
#include "fs/operations/file_operations.h"
#include "fs/operations/operation.h"
#include "fs/operations/unit_lending.h"
#include "fs/shared/codec.h"
#include "fs/shared/lease.h"
#include "transport/base/bytes.h"
#include "transport/base/result.h"
#include "transport/brick/calls.h"

namespace brickfs::shared {

constexpr size_t kMostData = 1 * kMiB;                  // of one Read or Write
constexpr size_t kMostFields = 128 * kKiB;              // an extended attribute of 64 KiB, a name, and the rest
constexpr size_t kMostFrame = kMostFields + kMostData;  // a call or an answer
constexpr uint32_t kMostEntries = 256;                  // of one ReadDirectory
constexpr size_t kMostParts = 256;                      // of one GetLayout
constexpr size_t kMostLentBlocks = 32;                  // that a member has at a time

// --- what several have

template <>
inline constexpr auto kFields<Attributes> = std::tuple(&Attributes::ino, &Attributes::mode, &Attributes::nlink,
                                                       &Attributes::uid, &Attributes::gid, &Attributes::rdev,
                                                       &Attributes::size_bytes, &Attributes::blocks_512,
                                                       &Attributes::atime, &Attributes::mtime, &Attributes::ctime,
                                                       &Attributes::btime);
template <>
inline constexpr auto kFields<AttributeChange> = std::tuple(&AttributeChange::mode, &AttributeChange::uid,
                                                            &AttributeChange::gid, &AttributeChange::size_bytes,
                                                            &AttributeChange::atime, &AttributeChange::mtime,
                                                            &AttributeChange::ctime, &AttributeChange::kill_privileges,
                                                            &AttributeChange::kill_if_owner);
template <>
inline constexpr auto kFields<Renamed> = std::tuple(&Renamed::moved, &Renamed::exchanged);
template <>
inline constexpr auto kFields<FileOperations::Hole> = std::tuple(&FileOperations::Hole::begin,
                                                                 &FileOperations::Hole::end,
                                                                 &FileOperations::Hole::size);
template <>
inline constexpr auto kFields<ReadableBrick> = std::tuple(&ReadableBrick::source, &ReadableBrick::boot,
                                                          &ReadableBrick::epoch);
template <>
inline constexpr auto kFields<FileLayout::Part> = std::tuple(&FileLayout::Part::offset, &FileLayout::Part::address,
                                                             &FileLayout::Part::length_bytes);
template <>
inline constexpr auto kFields<FileLayout::Place> = std::tuple(&FileLayout::Place::place, &FileLayout::Place::bricks);
template <>
inline constexpr auto kFields<FileLayout> = std::tuple(&FileLayout::begin, &FileLayout::end, &FileLayout::size_bytes,
                                                       &FileLayout::parts, &FileLayout::places);
template <>
inline constexpr auto kFields<UnitRun> = std::tuple(&UnitRun::first, &UnitRun::count);
template <>
inline constexpr auto kFields<LentPlace> = std::tuple(&LentPlace::place, &LentPlace::bricks);
template <>
inline constexpr auto kFields<FilesystemStat> = std::tuple(&FilesystemStat::unit_bytes, &FilesystemStat::total_units,
                                                           &FilesystemStat::free_units, &FilesystemStat::inodes,
                                                           &FilesystemStat::free_inodes,
                                                           &FilesystemStat::metadata_bytes);
template <>
inline constexpr auto kFields<Uncommitted> = std::tuple(&Uncommitted::operations, &Uncommitted::bytes,
                                                        &Uncommitted::committed);

// A Caller, as the asking machine knows him.
struct Who {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t umask = 0;
  bool in_all_groups = false;
  std::vector<uint32_t> groups;
  bool is_administrator = false;
  static constexpr auto kFields =
      std::tuple(&Who::uid, &Who::gid, &Who::umask, &Who::in_all_groups, &Who::groups, &Who::is_administrator);
};
Who to_who(const Caller& caller);
Caller to_caller(const Who& who);

struct Done {
  static constexpr auto kFields = std::tuple();
};
struct Count {
  uint64_t count = 0;
  static constexpr auto kFields = std::tuple(&Count::count);
};

// Attributes, and which leases on the inode come with them.
struct LeasedAttributes {
  Attributes attributes;
  Lease lease{};
  static constexpr auto kFields = std::tuple(&LeasedAttributes::attributes, &LeasedAttributes::lease);
};

// --- names

// What has the name, if anything has: that nothing has is an answer only with a lease on the directory's names.
struct Found {
  std::optional<LeasedAttributes> inode;
  Lease directory{};
  static constexpr auto kFields = std::tuple(&Found::inode, &Found::directory);
};
struct Lookup {
  using Answer = Found;
  Ino directory{};
  std::string name;
  static constexpr auto kFields = std::tuple(&Lookup::directory, &Lookup::name);
};
// References that the member's kernel has given back; many at once.
struct Forget {
  using Answer = Done;
  struct One {
    Ino ino{};
    uint64_t references = 0;
    static constexpr auto kFields = std::tuple(&One::ino, &One::references);
  };
  std::vector<One> inodes;
  static constexpr auto kFields = std::tuple(&Forget::inodes);
};
struct Hold {
  using Answer = Done;
  Ino ino{};
  static constexpr auto kFields = std::tuple(&Hold::ino);
};
// A new inode: of what kind, `mode` says. Without a name it is a temporary file.
struct Make {
  using Answer = LeasedAttributes;
  enum class How : uint8_t { kFile, kTemporary, kNode, kDirectory, kSymlink };
  How how = How::kFile;
  Ino directory{};
  std::string name;
  uint32_t mode = 0;
  uint32_t rdev = 0;
  std::string target;  // of a symbolic link
  Who who;
  static constexpr auto kFields =
      std::tuple(&Make::how, &Make::directory, &Make::name, &Make::mode, &Make::rdev, &Make::target, &Make::who);
};
struct Link {
  using Answer = LeasedAttributes;
  Ino ino{};
  Ino directory{};
  std::string name;
  static constexpr auto kFields = std::tuple(&Link::ino, &Link::directory, &Link::name);
};
struct Unlink {
  using Answer = Done;
  Ino directory{};
  std::string name;
  bool is_directory = false;
  std::vector<Ino> dropped;  // what the member believes to have the name, of which it keeps nothing
  static constexpr auto kFields =
      std::tuple(&Unlink::directory, &Unlink::name, &Unlink::is_directory, &Unlink::dropped);
};
struct Move {
  using Answer = Renamed;
  Ino directory{};
  std::string name;
  Ino new_directory{};
  std::string new_name;
  Rename how{};
  std::optional<Who> whiteout;
  std::vector<Ino> dropped;  // as of Unlink, of both names
  static constexpr auto kFields = std::tuple(&Move::directory, &Move::name, &Move::new_directory, &Move::new_name,
                                             &Move::how, &Move::whiteout, &Move::dropped);
};
struct LeasedText {
  std::string text;
  Lease lease{};
  static constexpr auto kFields = std::tuple(&LeasedText::text, &LeasedText::lease);
};
struct ReadSymlink {
  using Answer = LeasedText;
  Ino ino{};
  static constexpr auto kFields = std::tuple(&ReadSymlink::ino);
};
struct Entry {
  std::string name;
  Ino ino{};
  uint8_t type = 0;
  uint64_t next_offset = 0;
  std::optional<LeasedAttributes> attributes;
  static constexpr auto kFields =
      std::tuple(&Entry::name, &Entry::ino, &Entry::type, &Entry::next_offset, &Entry::attributes);
};
struct Entries {
  std::vector<Entry> entries;
  bool are_all = false;  // none follow
  Lease directory{};
  static constexpr auto kFields = std::tuple(&Entries::entries, &Entries::are_all, &Entries::directory);
};
struct ReadDirectory {
  using Answer = Entries;
  Ino directory{};
  uint64_t offset = 0;
  bool plus = false;
  bool touches = false;
  uint32_t most = 0;  // entries
  static constexpr auto kFields = std::tuple(&ReadDirectory::directory, &ReadDirectory::offset, &ReadDirectory::plus,
                                             &ReadDirectory::touches, &ReadDirectory::most);
};

// --- attributes

struct GetAttributes {
  using Answer = LeasedAttributes;
  Ino ino{};
  static constexpr auto kFields = std::tuple(&GetAttributes::ino);
};
struct SetAttributes {
  using Answer = LeasedAttributes;
  Ino ino{};
  AttributeChange change;
  Who who;
  static constexpr auto kFields = std::tuple(&SetAttributes::ino, &SetAttributes::change, &SetAttributes::who);
};
struct SetXattr {
  using Answer = Done;
  Ino ino{};
  std::string name;
  std::vector<std::byte> value;
  int32_t flags = 0;
  Who who;
  static constexpr auto kFields =
      std::tuple(&SetXattr::ino, &SetXattr::name, &SetXattr::value, &SetXattr::flags, &SetXattr::who);
};
// No bytes: there is no such attribute, which is an answer only with a lease.
struct LeasedXattr {
  std::optional<std::vector<std::byte>> bytes;
  Lease lease{};
  static constexpr auto kFields = std::tuple(&LeasedXattr::bytes, &LeasedXattr::lease);
};
struct GetXattr {
  using Answer = LeasedXattr;
  Ino ino{};
  std::string name;
  static constexpr auto kFields = std::tuple(&GetXattr::ino, &GetXattr::name);
};
struct ListXattr {
  using Answer = LeasedXattr;
  Ino ino{};
  Who who;
  static constexpr auto kFields = std::tuple(&ListXattr::ino, &ListXattr::who);
};
struct RemoveXattr {
  using Answer = Done;
  Ino ino{};
  std::string name;
  static constexpr auto kFields = std::tuple(&RemoveXattr::ino, &RemoveXattr::name);
};

// --- data

struct Read {  // its bytes stand behind the answer
  using Answer = Count;
  Ino ino{};
  uint64_t offset = 0;
  uint32_t length = 0;
  bool touches = false;
  static constexpr auto kFields = std::tuple(&Read::ino, &Read::offset, &Read::length, &Read::touches);
};
struct Written {
  uint64_t count = 0;
  std::optional<LeasedAttributes> inode;  // as it is then
  static constexpr auto kFields = std::tuple(&Written::count, &Written::inode);
};
// Where the bytes of a file are from that one on, for who reads them from the bricks.
struct Layout {
  FileLayout layout;
  bool is_leased = false;     // it holds until it is recalled; else it is worth nothing
  bool is_atime_due = false;  // who reads is to have that noted
  static constexpr auto kFields = std::tuple(&Layout::layout, &Layout::is_leased, &Layout::is_atime_due);
};
struct GetLayout {
  using Answer = Layout;
  Ino ino{};
  uint64_t offset = 0;
  static constexpr auto kFields = std::tuple(&GetLayout::ino, &GetLayout::offset);
};
struct Write {  // its bytes stand behind it
  using Answer = Written;
  Ino ino{};
  uint64_t offset = 0;
  bool appends = false;
  bool overwrites = false;  // FileOperations::overwrite()
  bool mapped = false;
  std::optional<Who> unprivileged;
  static constexpr auto kFields = std::tuple(&Write::ino, &Write::offset, &Write::appends, &Write::overwrites,
                                             &Write::mapped, &Write::unprivileged);
};

// --- writes that go to the bricks by the member itself (fs/shared/member_units.h)

// Units that are the member's to fill.
struct Lent {
  uint64_t lender = 0;  // that coordinator: another one's are others
  std::vector<UnitRun> runs;
  std::vector<LentPlace> places;  // all of the volume: where they are written, and in which lives of the bricks
  uint64_t committed = 0;         // as State's
  static constexpr auto kFields = std::tuple(&Lent::lender, &Lent::runs, &Lent::places, &Lent::committed);
};
struct GetUnits {
  using Answer = Lent;
  uint32_t blocks = 0;  // more than it has
  static constexpr auto kFields = std::tuple(&GetUnits::blocks);
};
struct WrittenUnits {
  Written written;
  uint64_t number = 0;  // until State::committed is beyond it, the member keeps the bytes; 0: it need not
  static constexpr auto kFields = std::tuple(&WrittenUnits::written, &WrittenUnits::number);
};
// Units that have been filled are to be a file's content. Whatever is answered, they are not the member's any more.
struct WriteUnits {
  using Answer = WrittenUnits;
  Ino ino{};
  uint64_t offset = 0;
  uint64_t length = 0;
  bool appends = false;
  bool mapped = false;
  std::optional<Who> unprivileged;
  uint64_t lender = 0;
  std::vector<UnitRun> runs;
  std::vector<LentPlace> places;
  uint64_t tag = 0;  // by which the member finds the bytes again
  static constexpr auto kFields = std::tuple(
      &WriteUnits::ino, &WriteUnits::offset, &WriteUnits::length, &WriteUnits::appends, &WriteUnits::mapped,
      &WriteUnits::unprivileged, &WriteUnits::lender, &WriteUnits::runs, &WriteUnits::places, &WriteUnits::tag);
};
struct Returned {
  uint64_t below = 0;  // all WriteUnits of that member so far have lower numbers
  static constexpr auto kFields = std::tuple(&Returned::below);
};
struct ReturnUnits {
  using Answer = Returned;
  uint64_t lender = 0;
  std::vector<UnitRun> runs;
  bool is_in_doubt = false;     // a write of them has failed, and may be under way yet
  bool is_wanted_back = false;  // it was asked to: that is all it has
  static constexpr auto kFields =
      std::tuple(&ReturnUnits::lender, &ReturnUnits::runs, &ReturnUnits::is_in_doubt, &ReturnUnits::is_wanted_back);
};
// What was written to units, for a brick that has lost it: the bytes stand behind it.
struct GiveBytes {
  using Answer = Done;
  uint64_t tag = 0;
  bool are_there = false;
  static constexpr auto kFields = std::tuple(&GiveBytes::tag, &GiveBytes::are_there);
};
struct Allocate {
  using Answer = Done;
  Ino ino{};
  int32_t mode = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  std::optional<Who> unprivileged;
  static constexpr auto kFields =
      std::tuple(&Allocate::ino, &Allocate::mode, &Allocate::offset, &Allocate::length, &Allocate::unprivileged);
};
struct NextHole {
  using Answer = FileOperations::Hole;
  Ino ino{};
  uint64_t offset = 0;
  static constexpr auto kFields = std::tuple(&NextHole::ino, &NextHole::offset);
};
struct CopyRange {
  using Answer = Count;
  Ino from{};
  uint64_t from_offset = 0;
  Ino to{};
  uint64_t to_offset = 0;
  uint64_t length = 0;
  std::optional<Who> unprivileged;
  static constexpr auto kFields = std::tuple(&CopyRange::from, &CopyRange::from_offset, &CopyRange::to,
                                             &CopyRange::to_offset, &CopyRange::length, &CopyRange::unprivileged);
};
struct Sync {
  using Answer = Done;
  std::optional<Ino> ino;  // none: all
  static constexpr auto kFields = std::tuple(&Sync::ino);
};

// --- locks. Whose machine it is, the session says.

template <>
inline constexpr auto kFields<FileLock> = std::tuple(&FileLock::first, &FileLock::last, &FileLock::mode,
                                                     &FileLock::pid);
struct LockOf {
  Ino ino{};
  uint64_t owner = 0;
  LockKind kind{};
  uint64_t open_file = 0;
  FileLock lock;
  static constexpr auto kFields =
      std::tuple(&LockOf::ino, &LockOf::owner, &LockOf::kind, &LockOf::open_file, &LockOf::lock);
};
struct FoundLock {
  std::optional<FileLock> lock;
  static constexpr auto kFields = std::tuple(&FoundLock::lock);
};
struct FindLock {
  using Answer = FoundLock;
  LockOf asked;
  static constexpr auto kFields = std::tuple(&FindLock::asked);
};
struct SetLock {
  using Answer = Done;
  LockOf asked;
  bool waits = false;
  static constexpr auto kFields = std::tuple(&SetLock::asked, &SetLock::waits);
};
// The owner of ranges closes the file.
struct CloseLocks {
  using Answer = Done;
  LockOf asked;  // without the lock
  static constexpr auto kFields = std::tuple(&CloseLocks::asked);
};
// The open file is gone.
struct ReleaseLocks {
  using Answer = Done;
  Ino ino{};
  uint64_t open_file = 0;
  static constexpr auto kFields = std::tuple(&ReleaseLocks::ino, &ReleaseLocks::open_file);
};

// --- the whole

// Told now and then, for what a mount says of itself; who asks is there.
struct State {
  bool read_only = false;
  std::string why_read_only;
  std::string store_trouble;
  Uncommitted uncommitted;
  FilesystemStat stat;
  std::string link;        // empty: the bricks answer; else what is the matter
  uint64_t leases = 0;     // the generation that is in force: what is held of another one is to be dropped
  uint64_t committed = 0;  // all WriteUnits with lower numbers
  uint64_t successor = 0;  // the session of who is to take the volume, which is about to be handed over; 0: nobody
  static constexpr auto kFields =
      std::tuple(&State::read_only, &State::why_read_only, &State::store_trouble, &State::uncommitted, &State::stat,
                 &State::link, &State::leases, &State::committed, &State::successor);
};
// Renews the leases of the generation that the member has begun (fs/shared/leases.h).
struct GetState {
  using Answer = State;
  uint64_t leases = 0;
  static constexpr auto kFields = std::tuple(&GetState::leases);
};
struct Recall {
  uint64_t number = 0;
  Ino ino{};
  Lease kinds{};
  static constexpr auto kFields = std::tuple(&Recall::number, &Recall::ino, &Recall::kinds);
};
// What a coordinator wants of the member by itself.
struct Recalls {
  std::vector<Recall> recalls;
  bool wants_units = false;           // all that are not being filled are to be returned
  std::vector<uint64_t> wants_bytes;  // of WriteUnits of these tags, to be given (GiveBytes)
  static constexpr auto kFields = std::tuple(&Recalls::recalls, &Recalls::wants_units, &Recalls::wants_bytes);
};
// Answered when there are some, or nothing for a while. `done`: those that the member has dropped.
struct AwaitRecalls {
  using Answer = Recalls;
  std::vector<uint64_t> done;
  static constexpr auto kFields = std::tuple(&AwaitRecalls::done);
};
struct RecallsDone {
  using Answer = Done;
  std::vector<uint64_t> done;
  static constexpr auto kFields = std::tuple(&RecallsDone::done);
};
// The member ends: what it held is let go of.
struct Leave {
  using Answer = Done;
  static constexpr auto kFields = std::tuple();
};

// A call of another slot is to end soon, as by a signal (Interruption), be it under way or not there yet.
struct Cancelled {
  bool is_over = false;  // it has ended, or will never be done
  static constexpr auto kFields = std::tuple(&Cancelled::is_over);
};
struct Cancel {
  using Answer = Cancelled;
  uint32_t slot = 0;
  uint64_t number = 0;
  bool is_abandoned = false;  // nobody waits for its answer: what that gives is taken back
  static constexpr auto kFields = std::tuple(&Cancel::slot, &Cancel::number, &Cancel::is_abandoned);
};

// Of a new coordinator: what the member holds from the former one, and goes on holding. Its first calls there, before
// its session's grace is over; the first and the last one say so. If the connection is lost on the way it begins anew.
struct Claim {
  using Answer = Done;
  std::vector<Forget::One> inodes;  // references that its kernel has
  std::vector<LockOf> locks;
  std::vector<Ino> by_pages;  // files that its kernel reads without asking
  bool is_first = false;
  bool is_all = false;
  static constexpr auto kFields =
      std::tuple(&Claim::inodes, &Claim::locks, &Claim::by_pages, &Claim::is_first, &Claim::is_all);
};

// The kind of a call is its place here.
using Request = std::variant<Lookup, Forget, Hold, Make, Link, Unlink, Move, ReadSymlink, ReadDirectory, GetAttributes,
                             SetAttributes, SetXattr, GetXattr, ListXattr, RemoveXattr, Read, Write, Allocate, NextHole,
                             CopyRange, Sync, GetState, Leave, Cancel, FindLock, SetLock, CloseLocks, ReleaseLocks,
                             Claim, AwaitRecalls, RecallsDone, GetLayout, GetUnits, WriteUnits, ReturnUnits, GiveBytes>;
constexpr size_t kKinds = std::variant_size_v<Request>;
using calls::Overloaded;

template <typename T, size_t kAt = 0>
constexpr uint16_t kind_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<kAt, Request>, T>) {
    return kAt;
  } else {
    return kind_of<T, kAt + 1>();
  }
}

// Nothing has happened when it was done, so that it may be done again.
template <typename T>
constexpr bool changes_nothing() {
  return std::is_same_v<T, Read> || std::is_same_v<T, GetAttributes> || std::is_same_v<T, GetXattr> ||
         std::is_same_v<T, ListXattr> || std::is_same_v<T, NextHole> || std::is_same_v<T, GetState> ||
         std::is_same_v<T, ReadSymlink> || std::is_same_v<T, Sync> || std::is_same_v<T, RecallsDone> ||
         std::is_same_v<T, GetLayout>;
}

// A call, and the bytes behind its fields. EPROTO: none that an honest peer sends.
struct Decoded {
  Request request;
  std::span<const std::byte> data;  // in what it was decoded from
};
Result<Decoded> decode_request(uint16_t kind, std::span<const std::byte> body);

}  // namespace brickfs::shared
