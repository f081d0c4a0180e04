// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/negotiation.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "fs/fuse/protocol/buffers.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs {

namespace {

constexpr uint16_t kMaxBackground = 64;  // asynchronous requests (read-ahead, direct I/O, writeback) under way at once
constexpr uint16_t kCongestionThreshold = 48;
// Linux 6.12: mounts of ours may be mapped to other ids (mount_setattr(2)). From then on requests name a user and a
// group only if they make an inode: fs/fuse/interrupt/thread_status.h, user_of(). It takes default_permissions.
constexpr uint64_t kAllowIdmap = uint64_t{1} << 40;
constexpr size_t kShortInit = 16;  // as kernels before protocol 7.36 send it: without flags2

}  // namespace

// Data in the kernel's cache is dropped only when we say so (EXPLICIT_INVAL_DATA). Without ATOMIC_O_TRUNC a truncating
// open comes as a setattr. HANDLE_KILLPRIV_V2: the kernel tells with each write and truncation whether set-uid and
// set-gid bits are to be cleared; without it, it asks for a file's capabilities before every write.
uint64_t FuseNegotiation::wanted_flags() const {
  uint64_t flags = FUSE_ASYNC_READ | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_DO_READDIRPLUS |
                   FUSE_READDIRPLUS_AUTO | FUSE_EXPORT_SUPPORT | FUSE_DONT_MASK | FUSE_POSIX_ACL | FUSE_CACHE_SYMLINKS |
                   FUSE_EXPLICIT_INVAL_DATA | FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_INIT_EXT |
                   FUSE_HANDLE_KILLPRIV_V2 | kAllowIdmap;
  if (wants_writeback_) flags |= FUSE_WRITEBACK_CACHE;
  if (wants_uring_) flags |= kFuseOverIoUring;
  if (wants_sharing_) flags |= FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS | kDirectIoAllowMmap;
  if (wanted_timeout_ != 0) flags |= kRequestTimeout;
  return flags;
}

Result<fuse_init_out> FuseNegotiation::answer(std::span<const std::byte> arguments) {
  fuse_init_in in{};
  std::memcpy(&in, arguments.data(), std::min(arguments.size(), sizeof(in)));
  const bool is_newer = in.major > FUSE_KERNEL_VERSION;  // it asks again, then, in our version
  if (arguments.size() < kShortInit || in.major < FUSE_KERNEL_VERSION || (!is_newer && in.minor < kOldestMinor)) {
    log::error("this kernel's FUSE is too old: protocol {}.{}", in.major, in.minor);
    return Error(EPROTO, "FUSE");
  }
  fuse_init_out out{};
  out.major = FUSE_KERNEL_VERSION;
  out.minor = FUSE_KERNEL_MINOR_VERSION;
  if (is_newer) return out;
  const bool has_more_flags = (in.flags & FUSE_INIT_EXT) != 0;
  const uint64_t offered = in.flags | (has_more_flags ? uint64_t{in.flags2} << 32 : 0);
  const uint64_t taken = wanted_flags() & offered;
  out.flags = static_cast<uint32_t>(taken);
  out.flags2 = static_cast<uint32_t>(taken >> 32);
  out.max_readahead = kReadAheadBytes;
  out.max_background = kMaxBackground;
  out.congestion_threshold = kCongestionThreshold;
  out.max_write = kFuseTransferBytes;
  out.max_pages = static_cast<uint16_t>(kFuseTransferBytes / static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  out.time_gran = 1;
  if ((taken & kRequestTimeout) != 0) out.unused[kWordOfRequestTimeout] = wanted_timeout_;
  kills_privileges_ = (taken & FUSE_HANDLE_KILLPRIV_V2) != 0;
  only_writers_ask_ = in.minor >= kMinorOfWritersAsk;
  waits_for_pages_ = in.minor >= kMinorOfWaitForPages;
  has_epochs_ = in.minor >= kMinorOfEpochs;
  maps_direct_files_ = (taken & kDirectIoAllowMmap) != 0;
  has_uring_ = (taken & kFuseOverIoUring) != 0;
  done_ = true;
  return out;
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLeastLimit{15};  // what is set below that counts as this: the kernel looks so often
constexpr uint16_t kMostSeconds = UINT16_MAX;
constexpr milliseconds kToAnswer{5'000};  // for all that waits, one after the other
constexpr milliseconds kLeastOutage{2'000};

// 0: not set, or this kernel has none.
unsigned read_setting(const std::string& path) {
  std::ifstream file(path);
  unsigned value = 0;
  return file >> value ? value : 0;
}

}  // namespace

std::optional<milliseconds> RequestLimit::longest_outage() const {
  if (!limit) return std::nullopt;
  return std::max<milliseconds>(*limit - limits::kLease - kToAnswer, kLeastOutage);
}

RequestLimit read_request_limit(const std::string& directory) {
  const unsigned most = read_setting(directory + "/max_request_timeout");
  const unsigned usual = read_setting(directory + "/default_request_timeout");
  RequestLimit found;
  if (most != 0) {
    // Who asks for nothing gets the default, if that is less.
    found.limit = seconds(usual != 0 ? std::min(most, kMostSeconds + 0U) : most);
    if (usual != 0) found.ask_seconds = kMostSeconds;
  } else if (usual != 0) {
    found.limit = seconds(kMostSeconds);
    found.ask_seconds = kMostSeconds;
  }
  if (found.limit) found.limit = std::max(*found.limit, kLeastLimit);
  return found;
}

}  // namespace brickfs
