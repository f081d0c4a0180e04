// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "fs/shm_queue/memory.h"

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

bool FileSizeLimit::allows(uint64_t end) {
  rlimit64 limit{};
  if (process_ == 0) return false;
  if (::prlimit64(process_, RLIMIT_FSIZE, nullptr, &limit) == 0) return end <= limit.rlim_cur;
  const auto read_limit = errno == EPERM ? read() : Error(ESRCH, "whose limit it is");
  return read_limit.ok() && end <= *read_limit;
}

// For want of CAP_SYS_RESOURCE, which containers seldom have, the kernel does not say it of another user's process. But
// anybody may read it.
Result<uint64_t> FileSizeLimit::read() {
  if (!limits_) limits_ = UniqueFd(::open(fmt::format("/proc/{}/limits", process_).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> bytes;
  const ssize_t count = limits_ ? ::pread(limits_.get(), bytes.data(), bytes.size(), 0) : -1;
  if (count < 0) return errno_error("the limits of a process");
  const std::string_view text(bytes.data(), static_cast<size_t>(count));
  constexpr std::string_view kName = "Max file size";
  const size_t name = text.find(kName);
  if (name == std::string_view::npos) return Error(EPROTO, "the limits of a process");
  std::string_view value = text.substr(name + kName.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  if (value.starts_with("unlimited")) return UINT64_MAX;
  uint64_t limit = 0;
  const auto parsed = std::from_chars(value.begin(), value.end(), limit);
  if (parsed.ec != std::errc()) return Error(EPROTO, "the limits of a process");
  return limit;
}

Result<MemoryShares::Share> MemoryShares::take(uid_t user, uint64_t bytes) {
  if (user == 0) return Share();
  MutexLock lock(mutex_);
  const auto found = taken_.find(user);
  const uint64_t taken = found == taken_.end() ? 0 : found->second;
  if (bytes > shm_queue::kMostMemoryOfUser - taken) return Error(EUSERS, "the memory of a user's queues");
  taken_[user] = taken + bytes;
  return Share(*this, user, bytes);
}

void MemoryShares::give_back(uid_t user, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto found = taken_.find(user);
  found->second -= bytes;
  if (found->second == 0) taken_.erase(found);
}

namespace {

constexpr int kMostClosing = 64;
std::atomic<int> closing{0};

}  // namespace

Status close_elsewhere(std::vector<UniqueFd> descriptors) {
  if (descriptors.empty()) return {};
  const bool too_many = ++closing > kMostClosing;
  auto moved = std::make_unique<std::vector<UniqueFd>>(std::move(descriptors));
  try {
    std::thread([of_thread = moved.get()] {
      delete of_thread;
      --closing;
    }).detach();
  } catch (const std::system_error&) {
    (void)moved.release();  // they stay open, and count: this thread may have to wait for them, too
    return Error(EUSERS, "no thread to close a descriptor");
  }
  (void)moved.release();  // the thread's
  return too_many ? Status(Error(EUSERS, "descriptors that are not closed")) : Status();
}

bool closes_too_many() { return closing > kMostClosing; }

}  // namespace brickfs
