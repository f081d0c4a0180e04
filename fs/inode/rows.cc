// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/rows.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cstring>

#include "fs/inode/directory.h"
#include "transport/base/check.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

enum class Kind : uint8_t {
  kPutInode = 1,
  kPutDirent = 2,
  kPutExtent = 3,
  kPutXattr = 4,
  kPutOrphan = 5,
  kEraseInode = 6,
  kEraseDirent = 7,
  kEraseExtents = 8,
  kEraseXattr = 9,
  kEraseOrphan = 10,
  kPutMember = 11,
  kPutReply = 12,
  kEraseMember = 13,
};

// Stored rows: docs/format.md, section "Rows". Not aligned; what is variable follows the record.
#define BRICKFS_STORED [[gnu::packed]]

struct BRICKFS_STORED InodeRecord {
  Kind kind = Kind::kPutInode;
  uint8_t reserved = 0;
  uint16_t target_bytes = 0;  // of the symbolic link's target, which follows
  uint32_t mode = 0;
  uint64_t ino = 0;
  uint64_t parent = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t nlink = 0;
  uint32_t rdev = 0;
  uint64_t size_bytes = 0;
  int64_t atime = 0;
  int64_t mtime = 0;
  int64_t ctime = 0;
  int64_t btime = 0;
};
static_assert(sizeof(InodeRecord) == 80 && offsetof(InodeRecord, uid) == 24 && offsetof(InodeRecord, atime) == 48);

struct BRICKFS_STORED DirentRecord {
  Kind kind = Kind::kPutDirent;
  uint8_t type = 0;
  uint8_t name_bytes = 0;  // of the name, which follows
  uint8_t reserved = 0;
  uint64_t directory = 0;
  uint64_t ino = 0;
  uint64_t cookie = 0;
};
static_assert(sizeof(DirentRecord) == 28 && offsetof(DirentRecord, directory) == 4);

struct BRICKFS_STORED ExtentRecord {
  Kind kind = Kind::kPutExtent;
  uint8_t unwritten = 0;  // 0 or 1
  uint16_t reserved = 0;
  uint64_t ino = 0;
  uint64_t file_unit = 0;
  uint64_t count = 0;
  uint64_t volume_unit = 0;
};
static_assert(sizeof(ExtentRecord) == 36 && offsetof(ExtentRecord, ino) == 4);

struct BRICKFS_STORED XattrRecord {
  Kind kind = Kind::kPutXattr;
  uint8_t name_bytes = 0;  // of the name, which follows
  uint16_t reserved = 0;
  uint32_t value_bytes = 0;  // of the value, which follows the name
  uint64_t ino = 0;
};
static_assert(sizeof(XattrRecord) == 16 && offsetof(XattrRecord, ino) == 8);

// kPutOrphan, kEraseInode, kEraseOrphan; and with a name behind it kEraseDirent, kEraseXattr.
struct BRICKFS_STORED KeyRecord {
  Kind kind{};
  uint8_t name_bytes = 0;
  uint16_t reserved = 0;
  uint64_t ino = 0;
};
static_assert(sizeof(KeyRecord) == 12 && offsetof(KeyRecord, ino) == 4);

struct BRICKFS_STORED RangeRecord {
  Kind kind = Kind::kEraseExtents;
  uint8_t reserved[3] = {};
  uint64_t ino = 0;
  uint64_t file_unit = 0;
  uint64_t count = 0;
};
static_assert(sizeof(RangeRecord) == 28 && offsetof(RangeRecord, ino) == 4);

struct BRICKFS_STORED MemberRecord {
  Kind kind = Kind::kPutMember;
  uint8_t read_only = 0;   // 0 or 1
  uint8_t name_bytes = 0;  // of the name, which follows
  uint8_t reserved = 0;
  uint64_t session = 0;
  uint64_t client = 0;
  std::array<std::byte, 16> token{};
};
static_assert(sizeof(MemberRecord) == 36 && offsetof(MemberRecord, session) == 4);

struct BRICKFS_STORED ReplyRecord {
  Kind kind = Kind::kPutReply;
  uint8_t slot = 0;
  uint16_t reserved = 0;
  uint64_t session = 0;
  uint64_t number = 0;
  uint64_t first = 0;
  uint64_t second = 0;
};
static_assert(sizeof(ReplyRecord) == 36 && offsetof(ReplyRecord, session) == 4);

struct BRICKFS_STORED SessionRecord {
  Kind kind = Kind::kEraseMember;
  uint8_t reserved[3] = {};
  uint64_t session = 0;
};
static_assert(sizeof(SessionRecord) == 12 && offsetof(SessionRecord, session) == 4);

#undef BRICKFS_STORED

constexpr uint64_t kMaxFileUnits = limits::kFileBytes / kUnitBytes + 1;
constexpr uint64_t kMaxVolumeUnits = limits::kVolumeBytes / kUnitBytes;

// --- what a row must be like, for the writer as for the reader

bool has_zero_byte(std::string_view text) { return std::memchr(text.data(), 0, text.size()) != nullptr; }

bool is_valid_number(Ino ino) { return ino != kNoIno && raw(ino) <= limits::kInodeNumber; }

bool is_valid_type(uint8_t type) {
  switch (type) {
    case DT_FIFO:
    case DT_CHR:
    case DT_DIR:
    case DT_BLK:
    case DT_REG:
    case DT_LNK:
    case DT_SOCK:
      return true;
    default:
      return false;
  }
}

bool is_valid_name(std::string_view name) {
  return !name.empty() && name.size() <= limits::kNameBytes && name != "." && name != ".." && !has_zero_byte(name) &&
         std::memchr(name.data(), '/', name.size()) == nullptr;
}

bool is_valid(const InodeRow& row) {
  const bool symlink = S_ISLNK(row.mode);
  return is_valid_number(row.ino) && (row.mode & ~(S_IFMT | 07777u)) == 0 && is_valid_type(IFTODT(row.mode)) &&
         (S_ISDIR(row.mode) ? is_valid_number(row.parent) : row.parent == kNoIno) &&
         row.size_bytes <= limits::kFileBytes && row.nlink <= limits::kLinksPerInode &&
         row.symlink_target.empty() != symlink && row.symlink_target.size() <= limits::kSymlinkBytes &&
         (!symlink || !has_zero_byte(row.symlink_target));
}

bool is_valid(const DirentRow& row) {
  return is_valid_number(row.directory) && is_valid_number(row.ino) && is_valid_name(row.name) &&
         is_valid_type(row.type) && row.cookie >= Directory::kFirstCookie && row.cookie <= limits::kCookie;
}

bool is_valid(const ExtentRow& row) {
  return is_valid_number(row.ino) && row.count > 0 && row.count <= kMaxFileUnits &&
         row.file_unit <= kMaxFileUnits - row.count && row.volume_unit <= kMaxVolumeUnits - row.count;
}

bool is_valid_xattr_name(std::string_view name) {
  return !name.empty() && name.size() <= limits::kXattrNameBytes && !has_zero_byte(name);
}

bool is_valid(const XattrRow& row) {
  return is_valid_number(row.ino) && is_valid_xattr_name(row.name) && row.value.size() <= limits::kXattrValueBytes;
}

bool is_valid_range(Ino ino, uint64_t file_unit, uint64_t count) {
  return is_valid_number(ino) && count > 0 && count <= UINT64_MAX - file_unit;
}

bool is_valid_session(uint64_t session) { return session > 0 && session <= INT64_MAX; }

bool is_valid(const MemberRow& row) {
  return is_valid_session(row.session) && row.name.size() <= limits::kClientNameBytes && !has_zero_byte(row.name);
}

bool is_valid(const ReplyRow& row) {
  return is_valid_session(row.session) && row.slot < ReplyRow::kSlots && row.number > 0;
}

// --- writing

template <typename Record>
void append(std::vector<std::byte>& out, const Record& record, std::string_view name = {},
            std::span<const std::byte> value = {}) {
  const size_t at = out.size();
  out.resize(at + sizeof(Record) + name.size() + value.size());
  std::memcpy(out.data() + at, &record, sizeof(Record));
  if (!name.empty()) std::memcpy(out.data() + at + sizeof(Record), name.data(), name.size());
  if (!value.empty()) std::memcpy(out.data() + at + sizeof(Record) + name.size(), value.data(), value.size());
}

// --- reading

constexpr Error kBadRow{EUCLEAN, "metadata row is damaged"};

// The fixed part of a row, and the bytes of it that follow.
template <typename Record>
Result<Record> load_record(std::span<const std::byte> row) {
  if (row.size() < sizeof(Record)) return kBadRow;
  return load<Record>(row);
}

std::string_view text_at(std::span<const std::byte> row, size_t offset, size_t bytes) {
  return {reinterpret_cast<const char*>(row.data()) + offset, bytes};
}

Status decode_inode(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<InodeRecord>(row);
  const InodeRow decoded{.ino = Ino{record.ino},
                         .parent = Ino{record.parent},
                         .mode = record.mode,
                         .uid = record.uid,
                         .gid = record.gid,
                         .nlink = record.nlink,
                         .rdev = record.rdev,
                         .size_bytes = record.size_bytes,
                         .atime = TimeNs{record.atime},
                         .mtime = TimeNs{record.mtime},
                         .ctime = TimeNs{record.ctime},
                         .btime = TimeNs{record.btime},
                         .symlink_target = text_at(row, sizeof(record), record.target_bytes)};
  if (record.reserved != 0 || !is_valid(decoded)) return kBadRow;
  return visitor.put(decoded);
}

Status decode_dirent(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<DirentRecord>(row);
  const DirentRow decoded{.directory = Ino{record.directory},
                          .name = text_at(row, sizeof(record), record.name_bytes),
                          .ino = Ino{record.ino},
                          .type = record.type,
                          .cookie = record.cookie};
  if (record.reserved != 0 || !is_valid(decoded)) return kBadRow;
  return visitor.put(decoded);
}

Status decode_extent(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<ExtentRecord>(row);
  const ExtentRow decoded{.ino = Ino{record.ino},
                          .file_unit = record.file_unit,
                          .count = record.count,
                          .volume_unit = record.volume_unit,
                          .unwritten = record.unwritten != 0};
  if (record.reserved != 0 || record.unwritten > 1 || !is_valid(decoded)) return kBadRow;
  return visitor.put(decoded);
}

Status decode_xattr(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<XattrRecord>(row);
  const XattrRow decoded{.ino = Ino{record.ino},
                         .name = text_at(row, sizeof(record), record.name_bytes),
                         .value = row.subspan(sizeof(record) + record.name_bytes)};
  if (record.reserved != 0 || !is_valid(decoded)) return kBadRow;
  return visitor.put(decoded);
}

Status decode_key(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<KeyRecord>(row);
  const Ino ino{record.ino};
  const std::string_view name = text_at(row, sizeof(record), record.name_bytes);
  if (record.reserved != 0 || !is_valid_number(ino)) return kBadRow;
  switch (record.kind) {
    case Kind::kEraseDirent:
      return is_valid_name(name) ? visitor.erase_dirent(ino, name) : kBadRow;
    case Kind::kEraseXattr:
      return is_valid_xattr_name(name) ? visitor.erase_xattr(ino, name) : kBadRow;
    default:
      break;
  }
  if (!name.empty()) return kBadRow;
  switch (record.kind) {
    case Kind::kPutOrphan:
      return visitor.put_orphan(ino);
    case Kind::kEraseInode:
      return visitor.erase_inode(ino);
    case Kind::kEraseOrphan:
      return visitor.erase_orphan(ino);
    default:
      return kBadRow;
  }
}

Status decode_range(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<RangeRecord>(row);
  const bool reserved = record.reserved[0] != 0 || record.reserved[1] != 0 || record.reserved[2] != 0;
  if (reserved || !is_valid_range(Ino{record.ino}, record.file_unit, record.count)) return kBadRow;
  return visitor.erase_extents(Ino{record.ino}, record.file_unit, record.count);
}

Status decode_member(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<MemberRecord>(row);
  const MemberRow decoded{.session = record.session,
                          .client = record.client,
                          .token = record.token,
                          .read_only = record.read_only != 0,
                          .name = text_at(row, sizeof(record), record.name_bytes)};
  if (record.reserved != 0 || record.read_only > 1 || !is_valid(decoded)) return kBadRow;
  return visitor.put(decoded);
}

Status decode_reply(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<ReplyRecord>(row);
  const ReplyRow decoded{.session = record.session,
                         .slot = record.slot,
                         .number = record.number,
                         .first = record.first,
                         .second = record.second};
  if (record.reserved != 0 || !is_valid(decoded)) return kBadRow;
  return visitor.put(decoded);
}

Status decode_session(std::span<const std::byte> row, RowVisitor& visitor) {
  const auto record = load<SessionRecord>(row);
  const bool reserved = record.reserved[0] != 0 || record.reserved[1] != 0 || record.reserved[2] != 0;
  if (reserved || !is_valid_session(record.session)) return kBadRow;
  return visitor.erase_member(record.session);
}

// `row`: exactly one row's bytes.
Status decode_row(std::span<const std::byte> row, RowVisitor& visitor) {
  switch (Kind{load<uint8_t>(row)}) {
    case Kind::kPutInode:
      return decode_inode(row, visitor);
    case Kind::kPutDirent:
      return decode_dirent(row, visitor);
    case Kind::kPutExtent:
      return decode_extent(row, visitor);
    case Kind::kPutXattr:
      return decode_xattr(row, visitor);
    case Kind::kEraseExtents:
      return decode_range(row, visitor);
    case Kind::kPutMember:
      return decode_member(row, visitor);
    case Kind::kPutReply:
      return decode_reply(row, visitor);
    case Kind::kEraseMember:
      return decode_session(row, visitor);
    case Kind::kPutOrphan:
    case Kind::kEraseInode:
    case Kind::kEraseDirent:
    case Kind::kEraseXattr:
    case Kind::kEraseOrphan:
      return decode_key(row, visitor);
  }
  return kBadRow;
}

KeyRecord key(Kind kind, Ino ino, std::string_view name = {}) {
  CHECK(is_valid_number(ino));
  return {.kind = kind, .name_bytes = static_cast<uint8_t>(name.size()), .ino = raw(ino)};
}

}  // namespace

void Transaction::put(const InodeRow& row) {
  CHECK(is_valid(row));
  const InodeRecord record{.target_bytes = static_cast<uint16_t>(row.symlink_target.size()),
                           .mode = row.mode,
                           .ino = raw(row.ino),
                           .parent = raw(row.parent),
                           .uid = row.uid,
                           .gid = row.gid,
                           .nlink = row.nlink,
                           .rdev = row.rdev,
                           .size_bytes = row.size_bytes,
                           .atime = static_cast<int64_t>(row.atime),
                           .mtime = static_cast<int64_t>(row.mtime),
                           .ctime = static_cast<int64_t>(row.ctime),
                           .btime = static_cast<int64_t>(row.btime)};
  append(bytes_, record, row.symlink_target);
}

void Transaction::put(const DirentRow& row) {
  CHECK(is_valid(row));
  const DirentRecord record{.type = row.type,
                            .name_bytes = static_cast<uint8_t>(row.name.size()),
                            .directory = raw(row.directory),
                            .ino = raw(row.ino),
                            .cookie = row.cookie};
  append(bytes_, record, row.name);
}

void Transaction::put(const ExtentRow& row) {
  CHECK(is_valid(row));
  append(bytes_, ExtentRecord{.unwritten = row.unwritten,
                              .ino = raw(row.ino),
                              .file_unit = row.file_unit,
                              .count = row.count,
                              .volume_unit = row.volume_unit});
}

void Transaction::put(const XattrRow& row) {
  CHECK(is_valid(row));
  const XattrRecord record{.name_bytes = static_cast<uint8_t>(row.name.size()),
                           .value_bytes = static_cast<uint32_t>(row.value.size()),
                           .ino = raw(row.ino)};
  append(bytes_, record, row.name, row.value);
}

void Transaction::put(const MemberRow& row) {
  CHECK(is_valid(row));
  const MemberRecord record{.read_only = row.read_only,
                            .name_bytes = static_cast<uint8_t>(row.name.size()),
                            .session = row.session,
                            .client = row.client,
                            .token = row.token};
  append(bytes_, record, row.name);
}

void Transaction::put(const ReplyRow& row) {
  CHECK(is_valid(row));
  append(bytes_, ReplyRecord{.slot = static_cast<uint8_t>(row.slot),
                             .session = row.session,
                             .number = row.number,
                             .first = row.first,
                             .second = row.second});
}

void Transaction::put_orphan(Ino ino) { append(bytes_, key(Kind::kPutOrphan, ino)); }

void Transaction::erase_inode(Ino ino) { append(bytes_, key(Kind::kEraseInode, ino)); }

void Transaction::erase_dirent(Ino directory, std::string_view name) {
  CHECK(is_valid_name(name));
  append(bytes_, key(Kind::kEraseDirent, directory, name), name);
}

void Transaction::erase_extents(Ino ino, uint64_t file_unit, uint64_t count) {
  CHECK(is_valid_range(ino, file_unit, count));
  append(bytes_, RangeRecord{.ino = raw(ino), .file_unit = file_unit, .count = count});
}

void Transaction::erase_xattr(Ino ino, std::string_view name) {
  CHECK(is_valid_xattr_name(name));
  append(bytes_, key(Kind::kEraseXattr, ino, name), name);
}

void Transaction::erase_orphan(Ino ino) { append(bytes_, key(Kind::kEraseOrphan, ino)); }

void Transaction::erase_member(uint64_t session) {
  CHECK(is_valid_session(session));
  append(bytes_, SessionRecord{.session = session});
}

Result<size_t> first_row_bytes(std::span<const std::byte> bytes) {
  if (bytes.empty()) return kBadRow;
  size_t length = 0;
  switch (Kind{load<uint8_t>(bytes)}) {
    case Kind::kPutInode:
      length = sizeof(InodeRecord) + TRY(load_record<InodeRecord>(bytes)).target_bytes;
      break;
    case Kind::kPutDirent:
      length = sizeof(DirentRecord) + TRY(load_record<DirentRecord>(bytes)).name_bytes;
      break;
    case Kind::kPutExtent:
      length = sizeof(ExtentRecord);
      break;
    case Kind::kEraseExtents:
      length = sizeof(RangeRecord);
      break;
    case Kind::kPutXattr: {
      const auto record = TRY(load_record<XattrRecord>(bytes));
      length = sizeof(record) + record.name_bytes + record.value_bytes;
      break;
    }
    case Kind::kPutMember:
      length = sizeof(MemberRecord) + TRY(load_record<MemberRecord>(bytes)).name_bytes;
      break;
    case Kind::kPutReply:
      length = sizeof(ReplyRecord);
      break;
    case Kind::kEraseMember:
      length = sizeof(SessionRecord);
      break;
    case Kind::kPutOrphan:
    case Kind::kEraseInode:
    case Kind::kEraseDirent:
    case Kind::kEraseXattr:
    case Kind::kEraseOrphan:
      length = sizeof(KeyRecord) + TRY(load_record<KeyRecord>(bytes)).name_bytes;
      break;
  }
  if (length == 0 || length > bytes.size()) return kBadRow;
  return length;
}

Status decode_rows(std::span<const std::byte> bytes, RowVisitor& visitor) {
  while (!bytes.empty()) {
    const size_t length = TRY(first_row_bytes(bytes));
    TRY(decode_row(bytes.first(length), visitor));
    bytes = bytes.subspan(length);
  }
  return {};
}

}  // namespace brickfs
