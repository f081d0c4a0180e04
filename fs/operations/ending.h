// SPDX-License-Identifier: Apache-2.0
// How long a brickfs that is to end waits for its brick. After an umount it goes on for `linger`, if that brick is away
// and something is not committed; told to end by a signal or by force, for seconds. Then everything that waits for the
// brick is cut off, and what is lost is known.
//
// Threads: any.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "fs/operations/file_operations.h"
#include "transport/base/mutex.h"

namespace brickfs {

// For people: "12 operations (3.4 MiB)", or empty.
std::string describe(const Uncommitted& uncommitted);

class Ending {
 public:
  Ending(FileOperations& files, std::chrono::seconds linger) : files_(files), linger_(linger) {}

  // The mount has been taken out of the tree, and the kernel has not ended the connection yet: there are users. False:
  // that is not so (any more).
  void set_detached(bool detached);
  // The kernel has ended the connection: there is nobody to answer to.
  void begin();
  // By a signal, or by force.
  void hurry();
  // To be called again and again.
  void check();

  bool began() const;
  bool gave_up() const;
  // What was not committed when it gave up; empty: nothing, or it has not given up.
  std::string lost() const;
  // What an unmount that answered so came to. Success: all is committed, though it may have been given up meanwhile.
  // ETIMEDOUT: it was given up, and something is lost.
  Status outcome(const Status& unmounted) const;

 private:
  using Clock = std::chrono::steady_clock;

  bool is_over(Clock::time_point now, const Uncommitted& uncommitted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool lingered(Clock::time_point now, const Uncommitted& uncommitted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  FileOperations& files_;
  const std::chrono::seconds linger_;

  mutable Mutex mutex_;
  bool detached_ ABSL_GUARDED_BY(mutex_) = false;
  bool began_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Clock::time_point> hurried_ ABSL_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> copy_away_since_ ABSL_GUARDED_BY(mutex_);  // of a volume that has others
  std::optional<Clock::time_point> away_since_ ABSL_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> progress_ ABSL_GUARDED_BY(mutex_);  // the last, since it is to end
  uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;                    // not committed then
  bool gave_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::string lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
