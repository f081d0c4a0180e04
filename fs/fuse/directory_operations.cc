// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <cstring>

#include "fs/fuse/operations.h"
#include "fs/fuse/place.h"
#include "fs/fuse/reply.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// Puts entries into the thread's reply buffer as long as they fit.
class EntryWriter {
 public:
  EntryWriter(fuse_req_t request, std::span<std::byte> room, bool plus) : request_(request), room_(room), plus_(plus) {}

  bool add(const DirectoryEntry& entry) {
    if (entry.name.size() >= name_.size()) return false;
    std::memcpy(name_.data(), entry.name.data(), entry.name.size());
    name_[entry.name.size()] = '\0';
    const size_t bytes = plus_ ? add_plus(entry) : add_plain(entry);
    if (bytes > room_.size() - used_) return false;
    used_ += bytes;
    return true;
  }

  std::span<std::byte> written() const { return room_.first(used_); }

 private:
  static struct stat brief_stat(const DirectoryEntry& entry) {
    struct stat brief {};
    brief.st_ino = raw(entry.ino);
    brief.st_mode = static_cast<mode_t>(entry.type) << 12;  // DT_* is a mode's type, shifted
    return brief;
  }

  char* place() const { return reinterpret_cast<char*>(room_.data()) + used_; }

  size_t add_plain(const DirectoryEntry& entry) const {
    const struct stat brief = brief_stat(entry);
    return fuse_add_direntry(request_, place(), room_.size() - used_, name_.data(), &brief,
                             static_cast<off_t>(entry.next_offset));
  }

  // "." and ".." go without a node id, which makes the kernel take no reference.
  size_t add_plus(const DirectoryEntry& entry) const {
    fuse_entry_param parameters{};
    if (entry.attributes != nullptr) {
      parameters = to_entry(*entry.attributes);
    } else {
      parameters.attr = brief_stat(entry);
    }
    return fuse_add_direntry_plus(request_, place(), room_.size() - used_, name_.data(), &parameters,
                                  static_cast<off_t>(entry.next_offset));
  }

  fuse_req_t request_;
  std::span<std::byte> room_;
  bool plus_;
  size_t used_ = 0;
  std::array<char, limits::kNameBytes + 1> name_{};
};

void read_entries(fuse_req_t request, fuse_ino_t directory, size_t size, off_t offset, bool plus) {
  const FuseBuffers& buffers = FusePlace::current()->buffers();
  const std::span<std::byte> reply = buffers.reply();
  EntryWriter writer(request, reply.first(std::min(size, reply.size())), plus);
  const Status status = filesystem_of(request).read_directory(
      ino_of(directory), static_cast<uint64_t>(offset), plus,
      [&writer](const DirectoryEntry& entry) { return writer.add(entry); }, touch_of(buffers.open_flags));
  if (!status.ok()) return reply_error(request, status.error());
  fuse_reply_buf(request, reinterpret_cast<const char*>(writer.written().data()), writer.written().size());
}

void readdir(fuse_req_t request, fuse_ino_t directory, size_t size, off_t offset, fuse_file_info*) {
  read_entries(request, directory, size, offset, false);
}

void readdirplus(fuse_req_t request, fuse_ino_t directory, size_t size, off_t offset, fuse_file_info*) {
  read_entries(request, directory, size, offset, true);
}

// ENOSYS: opening needs no request from now on, and the kernel keeps the entries it has read as long as they are valid.
void opendir(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, ENOSYS); }

void fsyncdir(fuse_req_t request, fuse_ino_t directory, int, fuse_file_info*) {
  reply_status(request, filesystem_of(request).sync(ino_of(directory)));
}

}  // namespace

void set_directory_operations(fuse_lowlevel_ops& operations) {
  operations.opendir = opendir;
  operations.readdir = readdir;
  operations.readdirplus = readdirplus;
  operations.fsyncdir = fsyncdir;
}

}  // namespace brickfs
