// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/serve/session.h"

namespace brickfs {
namespace {

// Puts entries into the request's reply buffer as long as they fit.
class EntryWriter {
 public:
  // `seconds`: for so long the kernel may keep what comes with `plus`.
  EntryWriter(std::span<std::byte> room, bool plus, uint64_t seconds) : room_(room), plus_(plus), seconds_(seconds) {}

  bool add(const DirectoryEntry& entry) {
    const fuse_dirent head{.ino = raw(entry.ino),
                           .off = entry.next_offset,
                           .namelen = static_cast<uint32_t>(entry.name.size()),
                           .type = entry.type};
    const size_t attributes_bytes = plus_ ? sizeof(fuse_entry_out) : 0;
    const size_t bytes = FUSE_REC_ALIGN(attributes_bytes + FUSE_NAME_OFFSET + entry.name.size());
    if (bytes > room_.size() - used_) return false;
    std::byte* const start = room_.data() + used_;
    if (plus_) {
      const fuse_entry_out attributes = attributes_of(entry);
      std::memcpy(start, &attributes, sizeof(attributes));
    }
    std::memcpy(start + attributes_bytes, &head, FUSE_NAME_OFFSET);
    std::byte* const name = start + attributes_bytes + FUSE_NAME_OFFSET;
    std::memcpy(name, entry.name.data(), entry.name.size());
    std::fill(name + entry.name.size(), start + bytes, std::byte{0});
    used_ += bytes;
    return true;
  }

  std::span<const std::byte> written() const { return room_.first(used_); }

 private:
  // "." and ".." go without a node id, which makes the kernel take no reference.
  fuse_entry_out attributes_of(const DirectoryEntry& entry) const {
    if (entry.attributes != nullptr) return to_entry(*entry.attributes, seconds_);
    fuse_entry_out brief{};
    brief.attr.ino = raw(entry.ino);
    brief.attr.mode = uint32_t{entry.type} << 12;  // DT_* is a mode's type, shifted
    return brief;
  }

  std::span<std::byte> room_;
  bool plus_;
  uint64_t seconds_;
  size_t used_ = 0;
};

void read_entries(FuseSession& session, FuseRequest& request, const fuse_read_in& in, bool plus) {
  const std::span<std::byte> room = request.buffers().reply();
  EntryWriter writer(room.first(std::min<size_t>(in.size, room.size())), plus, request.kept_seconds());
  const Status status = session.files().read_directory(
      request.ino(), in.offset, plus, [&writer](const DirectoryEntry& entry) { return writer.add(entry); },
      touch_of(in.flags), request.context());
  status.ok() ? request.answer(writer.written()) : request.answer(status);
}

void readdir(FuseSession& session, FuseRequest& request, const fuse_read_in& in) {
  read_entries(session, request, in, false);
}

void readdirplus(FuseSession& session, FuseRequest& request, const fuse_read_in& in) {
  read_entries(session, request, in, true);
}

// ENOSYS: opening needs no request from now on, and the kernel keeps the entries it has read as long as they are valid:
// not where others may make some.
void opendir(FuseSession& session, FuseRequest& request) {
  if (!session.sharing().is_shared()) return (void)request.answer(Error(ENOSYS));
  request.answer_with(fuse_open_out{});
}

// The kernel's references keep what is open.
void releasedir(FuseSession&, FuseRequest& request) { request.answer(Status()); }

void fsyncdir(FuseSession& session, FuseRequest& request) {
  request.answer(session.files().sync(request.ino(), request.context()));
}

constexpr std::array kDirectoryOperations = {
    operation<opendir>(FUSE_OPENDIR, "opendir", kStampsNothing),
    operation<releasedir>(FUSE_RELEASEDIR, "releasedir", kStampsNothing).for_open_file(),
    operation<readdir, fuse_read_in>(FUSE_READDIR, "readdir", kStampsNothing).that_takes(kLittle).for_open_file(),
    operation<readdirplus, fuse_read_in>(FUSE_READDIRPLUS, "readdirplus", kStampsNothing)
        .that_takes(kLittle)
        .for_open_file(),
    operation<fsyncdir>(FUSE_FSYNCDIR, "fsyncdir", kStampsNothing).that_takes(kDisk).for_open_file(),
};

}  // namespace

std::span<const FuseOperation> directory_operations() { return kDirectoryOperations; }

}  // namespace brickfs
