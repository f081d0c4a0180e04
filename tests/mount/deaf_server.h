// SPDX-License-Identifier: Apache-2.0
// A FUSE server of a user's whose file `file` takes no bytes: writes to it are never answered, so the kernel has them
// in its cache, and whoever closes such a file waits for ever. As fusermount3 mounts it for a user, so not for others.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>

#include "tests/mount/ring_expect.h"
#include "transport/base/unique_fd.h"

class DeafServer {
 public:
  DeafServer(const char* directory, uid_t user)
      : directory_(directory), device_(open("/dev/fuse", O_RDWR | O_CLOEXEC)), user_(user) {
    EXPECT(device_);
    const std::string id = std::to_string(user);
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=" + id + ",group_id=" + id;
    EXPECT(mount("deaf", directory, "fuse.deaf", MS_NOSUID | MS_NODEV, options.c_str()) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  // Who waits for it is answered that it is gone.
  ~DeafServer() {
    umount2(directory_.c_str(), MNT_FORCE);
    umount2(directory_.c_str(), MNT_DETACH);
    thread_.join();
  }
  // In a child of fork(2): it ends with this process alone.
  void leave() const { close(device_.get()); }
  DeafServer(const DeafServer&) = delete;
  DeafServer& operator=(const DeafServer&) = delete;

 private:
  static constexpr uint64_t kFile = 2;

  void serve() {
    alignas(8) std::array<char, 256 * 1024> request;
    for (;;) {
      const ssize_t length = read(device_.get(), request.data(), request.size());
      if (length < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
      if (length < static_cast<ssize_t>(sizeof(fuse_in_header))) return;
      answer(*reinterpret_cast<const fuse_in_header*>(request.data()));
    }
  }
  void answer(const fuse_in_header& request) const {
    switch (request.opcode) {
      case FUSE_INIT: {
        fuse_init_out begun{};
        begun.major = FUSE_KERNEL_VERSION;
        begun.minor = 31;
        begun.flags = FUSE_WRITEBACK_CACHE | FUSE_BIG_WRITES;
        begun.max_write = 64 * 1024;
        return reply(request, 0, &begun, sizeof(begun));
      }
      case FUSE_LOOKUP: {
        fuse_entry_out entry{};
        entry.nodeid = kFile;
        entry.entry_valid = entry.attr_valid = 3'600;
        entry.attr = attributes(kFile);
        return reply(request, 0, &entry, sizeof(entry));
      }
      case FUSE_GETATTR:
      case FUSE_SETATTR: {
        fuse_attr_out found{};
        found.attr_valid = 3'600;
        found.attr = attributes(request.nodeid);
        return reply(request, 0, &found, sizeof(found));
      }
      case FUSE_OPEN: {
        const fuse_open_out opened{};
        return reply(request, 0, &opened, sizeof(opened));
      }
      case FUSE_FLUSH:
      case FUSE_RELEASE:
        return reply(request, 0, nullptr, 0);
      case FUSE_WRITE:
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        return;
      default:
        return reply(request, ENOSYS, nullptr, 0);
    }
  }
  fuse_attr attributes(uint64_t node) const {
    fuse_attr found{};
    found.ino = node;
    found.mode = node == kFile ? S_IFREG | 0600 : S_IFDIR | 0700;
    found.nlink = 1;
    found.uid = found.gid = user_;
    found.blksize = 4096;
    return found;
  }
  void reply(const fuse_in_header& request, int error, const void* data, size_t length) const {
    std::array<char, 512> packet{};
    const fuse_out_header header{
        .len = static_cast<uint32_t>(sizeof(fuse_out_header) + length), .error = -error, .unique = request.unique};
    memcpy(packet.data(), &header, sizeof(header));
    if (length > 0) memcpy(packet.data() + sizeof(header), data, length);
    (void)!write(device_.get(), packet.data(), header.len);
  }

  const std::string directory_;
  const brickfs::UniqueFd device_;
  const uid_t user_;
  std::thread thread_;
};
