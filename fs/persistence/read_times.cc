// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/read_times.h"

namespace brickfs {

void ReadTimes::add(Ino ino) {
  MutexLock lock(mutex_);
  newer_.insert(ino);
}

bool ReadTimes::take(Ino ino) {
  MutexLock lock(mutex_);
  const bool is_newer = newer_.erase(ino) > 0;
  return scanned_.erase(ino) > 0 || is_newer;
}

std::vector<Ino> ReadTimes::all() const {
  MutexLock lock(mutex_);
  std::vector<Ino> all(newer_.begin(), newer_.end());
  all.insert(all.end(), scanned_.begin(), scanned_.end());
  return all;
}

bool ReadTimes::empty() const {
  MutexLock lock(mutex_);
  return newer_.empty() && scanned_.empty();
}

void ReadTimes::begin_scan() {
  MutexLock lock(mutex_);
  scanned_.swap(newer_);
}

// What was added meanwhile may have been passed by already.
void ReadTimes::end_scan(bool durable) {
  MutexLock lock(mutex_);
  if (!durable) newer_.insert(scanned_.begin(), scanned_.end());
  scanned_.clear();
}

}  // namespace brickfs
