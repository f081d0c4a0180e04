// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/shown_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

namespace brickfs {
namespace {

constexpr long kFuseMagic = FUSE_SUPER_MAGIC;

}  // namespace

// With AT_STATX_DONT_SYNC the kernel asks nobody. Its answer names a file system by its number; that one which shows
// files of ours as its own (an overlay) does not pass for ours is seen to by what it says of its kind.
Result<ShownFile> inspect_file(int descriptor, const std::string& device_number) {
  struct statx attributes {};
  if (::statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &attributes) != 0)
    return errno_error("a file of a queue");
  if (fmt::format("{}:{}", attributes.stx_dev_major, attributes.stx_dev_minor) != device_number)
    return Error(EXDEV, "a file of another file system");
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return Error(EBADF, "a descriptor that neither reads nor writes");
  struct statfs kind {};
  if (::fstatfs(descriptor, &kind) != 0) return errno_error("a file of a queue");
  if (static_cast<long>(kind.f_type) != kFuseMagic) return Error(EXDEV, "a file of another file system");
  if (!S_ISREG(attributes.stx_mode)) return Error(EINVAL, "no regular file");
  const int access = flags & O_ACCMODE;
  return ShownFile{.ino = Ino{attributes.stx_ino},
                   .reads = access == O_RDONLY || access == O_RDWR,
                   .writes = access == O_WRONLY || access == O_RDWR,
                   .appends = (flags & O_APPEND) != 0,
                   .syncs = (flags & O_DSYNC) != 0,
                   .touch = (flags & O_NOATIME) != 0 ? Touch::kNothing : Touch::kAtime};
}

}  // namespace brickfs
