// SPDX-License-Identifier: Apache-2.0
// Advisory locks of files, as programs set them: of ranges (fcntl(2), POSIX and open file description ones) and of
// whole files (flock(2)).
#pragma once

#include <cstdint>

#include "fs/base/ids.h"

namespace brickfs {

// kRange and kWhole do not see each other.
enum class LockKind : uint8_t { kRange = 0, kWhole = 1 };
enum class LockMode : uint8_t { kUnlocked = 0, kShared = 1, kExclusive = 2 };

// Who has a lock. What has the same owner never conflicts.
struct LockOwner {
  uint64_t machine = 0;  // 0: where the files are; others: as it numbers those that it serves
  uint64_t id = 0;       // as that machine's kernel names it: a process (POSIX), an open file (the others)
  LockKind kind = LockKind::kRange;

  friend bool operator==(const LockOwner& a, const LockOwner& b) {
    return a.machine == b.machine && a.id == b.id && a.kind == b.kind;
  }
};

struct FileLock {
  static constexpr uint64_t kLastByte = INT64_MAX;  // there is none behind it

  uint64_t first = 0;  // byte
  uint64_t last = kLastByte;
  LockMode mode = LockMode::kUnlocked;
  uint32_t pid = 0;  // of the process that set it; 0: not known here

  friend bool operator==(const FileLock& a, const FileLock& b) {
    return a.first == b.first && a.last == b.last && a.mode == b.mode && a.pid == b.pid;
  }
};

// A lock that somebody asks for, or asks about.
struct LockRequest {
  Ino ino{};
  LockOwner owner = {};
  uint64_t open_file = 0;  // by which it is set, as the machine numbers those
  FileLock lock = {};
};

}  // namespace brickfs
