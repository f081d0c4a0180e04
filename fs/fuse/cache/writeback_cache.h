// SPDX-License-Identifier: Apache-2.0
// The kernel's write-back cache, where a mount has it, and how much it may hold.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "fs/fuse/cache/notices.h"
#include "fs/operations/file_operations.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

// How much of a FUSE mount the kernel may have in its page cache and not written back. It holds itself to that
// (strictly, for FUSE): 1 % of what it may have of all file systems, unless an administrator says otherwise. Source:
// Documentation/ABI/testing/sysfs-class-bdi.
constexpr const char* kBdiSettings = "/sys/class/bdi";

// This kernel says so (Linux 6.2 and later). `directory`: of the settings.
bool tells_dirty_limit(const std::string& directory = kBdiSettings);
// In bytes, of the mounted file system with that device number ("MAJOR:MINOR"). None: it does not say, or does not hold
// itself to it.
std::optional<uint64_t> read_dirty_limit(const std::string& device, const std::string& directory = kBdiSettings);
// Best effort: only root may. What it is then.
std::optional<uint64_t> set_dirty_limit(const std::string& device, uint64_t bytes,
                                        const std::string& directory = kBdiSettings);

// The kernel's write-back cache, where a mount has it: write(2) returns when the bytes are in the kernel's pages, and
// what becomes of them shows later. So that nobody writes on and on into a full volume:
//
// - Room for all that the kernel may have is kept (fs/space/writeback_reserve.h). When less is free, it may have less,
// writes back all it has, and less room is kept: so writes go on at their speed. With much room it may have more again.
// - When it cannot have less, each write(2) to a file is preceded by a question of the kernel for the file's
// attributes, which we have told it to
//   forget. It is answered when what was written to the file before has been written back. If that found no room, the
//   answer is ENOSPC, and write(2) returns it.
// - The same goes for whatever else befalls bytes written back: the next write to the file tells, besides fsync and
// close.
//
// Source: fs/fuse/file.c of Linux 6.18, fuse_cache_write_iter(): FUSE_GETATTR with FUSE_GETATTR_FH. Before 5.16 readers
// ask so, too, and no write tells (fs/fuse/protocol/protocol.h).
// Threads: any.
class WritebackCache {
 public:
  struct Notices {
    PageWriter::Notice write_back;               // all that the kernel has of the file, which it drops
    std::function<void(Ino)> forget_attributes;  // does not wait
  };
  WritebackCache(FileOperations& files, Notices notices)
      : files_(files), notices_(notices), pages_(std::move(notices.write_back)) {}

  // Has the kernel have at most so many bytes; how many that is then. None: it cannot be said.
  using Limit = std::function<std::optional<uint64_t>(uint64_t bytes)>;
  // The kernel has at most so much at a time. Before the first request is served. `limit`: called by one thread.
  void keep_room(uint64_t most_bytes, Limit limit);
  // The kernel asks for a file's attributes as it is about to write to it. Waits; what write(2) is to return. `by`: of
  // the request.
  Status before_write(Ino ino, const Interruption* by);
  // Bytes up to there were written back, or not.
  void written(Ino ino, uint64_t end, const Status& status);
  // Of data that was lost and of which nobody was told, but for fsync and close.
  void forget_lost(Ino ino);
  void stop() { pages_.stop(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Lost {
    Error error;
    Clock::time_point at;
  };
  void reserve(uint64_t bytes);
  void make_room();
  void give_room_back();
  uint64_t share_of_room() const;
  void write_back_all();
  void note_lost(Ino ino, const Error& error);
  std::optional<Error> take_lost(Ino ino);

  FileOperations& files_;
  const Notices notices_;
  // Fixed once requests are served.
  uint64_t most_bytes_ = 0;
  Limit limit_;
  // Synchronised by themselves.
  std::atomic<uint64_t> allowed_bytes_{0};  // the kernel may have
  std::atomic<bool> is_giving_back_{false};
  Mutex mutex_;
  absl::flat_hash_map<Ino, Lost> lost_ ABSL_GUARDED_BY(mutex_);
  PageWriter pages_;  // last: its thread uses the others
};

}  // namespace brickfs
