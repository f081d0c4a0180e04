// SPDX-License-Identifier: Apache-2.0
// Advisory locks among open files: of ranges (as F_OFD_SETLK) and of whole files (as flock(2)). They belong to an open
// file.
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs::library {

class FileLocks {
 public:
  using Owner = const void*;
  enum class Mode { kShared, kExclusive };
  enum class Space { kRanges, kWhole };  // these two do not see each other
  struct Range {
    uint64_t begin;
    uint64_t end;  // behind the last byte
  };

  using Patience = std::optional<std::chrono::milliseconds>;  // none: it waits for ever

  // Takes it; what the owner has of the range changes to that mode. While another has it: EAGAIN, if the patience is 0;
  // ETIMEDOUT, when it is over; ECANCELED, after end_waits(); EINTR.
  Status lock(Space space, Ino ino, Owner owner, Range range, Mode mode, Patience patience, const Interruption* by);
  // Of those at hand and those to come.
  void end_waits();
  void unlock(Space space, Ino ino, Owner owner, Range range);
  bool is_held_by_another(Space space, Ino ino, Owner owner, Range range, Mode mode);
  void release_all(Ino ino, Owner owner);

 private:
  struct Lock {
    Owner owner;
    Range range;
    Mode mode;
  };
  using Key = std::pair<Ino, Space>;

  bool conflicts(Key key, Owner owner, Range range, Mode mode) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void cut_out(Key key, Owner owner, Range range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar released_;
  bool waits_end_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Key, std::vector<Lock>> locks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::library
