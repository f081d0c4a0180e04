// SPDX-License-Identifier: Apache-2.0
// What there is to know of a program at the other end of a queue: the files that it has shown, and its limits.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fs/base/ids.h"
#include "fs/operations/file_operations.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

// A file of the mount, as a program has shown it to us by an open descriptor. Only what is found out of it is kept, and
// not the descriptor: so a queue keeps no lock of a file, and no mount busy. An inode's number is never used twice, so
// a file that is gone is just not found any more.
struct ShownFile {
  Ino ino = kNoIno;
  bool reads = false;  // it was opened for that
  bool writes = false;
  bool appends = false;  // O_APPEND
  bool syncs = false;    // O_SYNC, O_DSYNC
  Touch touch = Touch::kAtime;
};

// What that descriptor is, if it is an open regular file of the mount with this device number ("MAJOR:MINOR"). Asks no
// file system but ours, which may wait: not on a thread that serves the kernel. EXDEV: of another file system; EINVAL:
// no regular file; EBADF: not open for reading or writing (O_PATH).
Result<ShownFile> inspect_file(int descriptor, const std::string& device_number);

// RLIMIT_FSIZE of another process, as it is at the moment.
//
// Threads: one.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(pid_t process) : process_(process) {}  // 0: not known
  // A file may end there. False, too, if nobody can say: the process has ended.
  bool allows(uint64_t end);

 private:
  Result<uint64_t> read();

  const pid_t process_;
  UniqueFd limits_;  // /proc/PID/limits, once it is needed
};

// How much memory the queues of each user have: what is registered with devices stays where it is, whatever the limits
// of that user say, so it has a bound (shm_queue::kMostMemoryOfUser). Root has none.
//
// Threads: any.
class MemoryShares {
 public:
  // Given back with it, before the MemoryShares goes.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(user_, other.user_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (of_ != nullptr) of_->give_back(user_, bytes_);
    }

   private:
    friend class MemoryShares;
    Share(MemoryShares& of, uid_t user, uint64_t bytes) : of_(&of), user_(user), bytes_(bytes) {}

    MemoryShares* of_ = nullptr;
    uid_t user_ = 0;
    uint64_t bytes_ = 0;
  };

  // EUSERS.
  Result<Share> take(uid_t user, uint64_t bytes);

 private:
  void give_back(uid_t user, uint64_t bytes);

  Mutex mutex_;
  std::map<uid_t, uint64_t> taken_ ABSL_GUARDED_BY(mutex_);  // bytes
};

// Closing what a program has handed over: it may be of any file system, and that one's server may never answer. So a
// thread of its own does it, which may never end.
//
// Threads: any.
// None of them is closed by the caller's thread, also with an error. EUSERS: too many threads are at it already.
Status close_elsewhere(std::vector<UniqueFd> descriptors);

inline Status close_elsewhere(UniqueFd descriptor) {
  std::vector<UniqueFd> one;
  if (descriptor) one.push_back(std::move(descriptor));
  return close_elsewhere(std::move(one));
}

// So that nothing should be taken from programs any more.
bool closes_too_many();

}  // namespace brickfs
