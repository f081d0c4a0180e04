// SPDX-License-Identifier: Apache-2.0
#include "server/store/file_device.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

#include <cstring>
#include <filesystem>

#include "server/store/store_refusal.h"

namespace brickfs {
namespace {

Status sync_folder_of(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return errno_error("syncing the store's directory");
  return {};
}

// A link may lead to a file that is there. One is made only where nothing is: not by a link that leads nowhere, which
// somebody may have put there. What is no file does not keep us waiting.
UniqueFd open_file(const std::string& path, bool may_create) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(::open(path.c_str(), kFlags));
  if (fd.valid() || errno != ENOENT || !may_create) return fd;
  return UniqueFd(::open(path.c_str(), kFlags | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
}

// Whose file it is can read and change all that is ever stored there.
Status check_owner(const struct stat& info, const std::string& path, std::string* why) {
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return refuse_store(
        why, EPERM,
        fmt::format("store {}: belongs to another user ({}): run as that one, or chown it", path, info.st_uid));
  }
  if ((info.st_mode & S_IWOTH) == 0) return {};
  return refuse_store(why, EPERM, fmt::format("store {}: everybody may write to it: chmod 600 it", path));
}

}  // namespace

Result<std::unique_ptr<FileDevice>> FileDevice::open(const std::string& path, bool may_create, std::string* why) {
  UniqueFd fd = open_file(path, may_create);
  if (!fd.valid() && errno == ENOENT && !may_create) {
    return refuse_store(why, ENOENT, fmt::format("store {}: does not exist; give a size to make it", path));
  }
  if (!fd.valid() && errno == EEXIST) {
    return refuse_store(
        why, EEXIST,
        fmt::format("store {}: a link that leads nowhere: make the file that it names, or remove it", path));
  }
  if (!fd.valid()) return refuse_store(why, path, "cannot be opened", errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return refuse_store(why, path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) return refuse_store(why, EINVAL, fmt::format("store {}: not a regular file", path));
  TRY(check_owner(info, path, why));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return refuse_store(why, path, "cannot be locked", errno);
    return refuse_store(why, EBUSY, fmt::format("store {}: in use by another process", path));
  }
  return std::unique_ptr<FileDevice>(new FileDevice(path, std::move(fd), info.st_size == 0));
}

Result<uint64_t> FileDevice::size_bytes() const {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return errno_error("examining the store");
  return static_cast<uint64_t>(info.st_size);
}

Status FileDevice::read(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("reading the store");
    if (got == 0) return Error(EIO, "the store is shorter than it was");
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

// pwritev2 rather than pwrite: thread checkers take the latter for a read that must not race with writers.
Status FileDevice::write(uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const iovec piece{const_cast<std::byte*>(from.data()), from.size()};
    const ssize_t written = pwritev2(fd_.get(), &piece, 1, static_cast<off_t>(offset), 0);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_error("writing the store");
    if (written == 0) return Error(EIO, "writing the store");
    from = from.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

Status FileDevice::allocate(int mode, uint64_t offset, uint64_t length_bytes, const char* doing) {
  while (fallocate(fd_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(length_bytes)) != 0) {
    if (errno != EINTR) return errno_error(doing);
  }
  return {};
}

// A file system that cannot reserve finds out when it writes.
Status FileDevice::reserve(uint64_t offset, uint64_t length_bytes) {
  const Status reserved = allocate(FALLOC_FL_KEEP_SIZE, offset, length_bytes, "reserving room for the store");
  return !reserved.ok() && reserved.error().is(EOPNOTSUPP) ? Status() : reserved;
}

Status FileDevice::punch(uint64_t offset, uint64_t length_bytes) {
  return allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length_bytes, "clearing slots of the store");
}

Status FileDevice::grow(uint64_t size_bytes) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) != 0) return errno_error("extending the store");
  return {};
}

Status FileDevice::sync() {
  if (fdatasync(fd_.get()) != 0) return errno_error("syncing the store");
  if (is_new_) TRY(sync_folder_of(path_));
  is_new_ = false;
  return {};
}

void FileDevice::forget_cache() { static_cast<void>(posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED)); }

uint64_t FileDevice::room_bytes() const {
  struct statvfs info {};
  if (fstatvfs(fd_.get(), &info) != 0) return UINT64_MAX;
  return (geteuid() == 0 ? info.f_bfree : info.f_bavail) * info.f_frsize;  // root may use what is kept for it
}

}  // namespace brickfs
