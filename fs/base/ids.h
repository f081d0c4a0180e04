// SPDX-License-Identifier: Apache-2.0
// Distinct types for the file system's distinct numbers.
#pragma once

#include <compare>
#include <cstdint>

#include "transport/base/bytes.h"
#include "transport/brick/block.h"

namespace brickfs {

// An inode's number: stable for the life of the file system, never given twice; FUSE's node id.
enum class Ino : uint64_t {};
constexpr Ino kNoIno{0};
constexpr Ino kRootIno{1};
constexpr uint64_t raw(Ino ino) { return static_cast<uint64_t>(ino); }

// A transaction's place in the journal: 1, 2, 3 ... over the life of the file system.
enum class Lsn : uint64_t {};
constexpr uint64_t raw(Lsn lsn) { return static_cast<uint64_t>(lsn); }
constexpr Lsn next(Lsn lsn) { return Lsn{raw(lsn) + 1}; }

// The unit of space: blocks are cut into 512 of them. A *file unit* counts them from a file's start, a *volume unit*
// from volume address 0.
constexpr uint64_t kUnitBytes = 4096;
constexpr uint64_t kUnitsPerBlock = kBlockBytes / kUnitBytes;

// Neighbouring volume units.
struct UnitRun {
  uint64_t first = 0;
  uint64_t count = 0;

  constexpr uint64_t end() const { return first + count; }
  constexpr uint64_t address() const { return first * kUnitBytes; }
  constexpr bool operator==(const UnitRun&) const = default;
};

// Nanoseconds since 1970-01-01 UTC (years 1677 to 2262).
enum class TimeNs : int64_t {};

}  // namespace brickfs
