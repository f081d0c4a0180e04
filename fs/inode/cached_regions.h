// SPDX-License-Identifier: Apache-2.0
// Which regions of a file the kernel's page cache may hold: what has been read or written through it since it was last
// dropped. Small (an inode has one), so coarse: at most 58 regions, of 256 KiB or, as the file needs it, some power of
// two more.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace brickfs {

class CachedRegions {
 public:
  struct Range {
    uint64_t offset;
    uint64_t length;
    bool operator==(const Range&) const = default;
  };

  // From now on it may hold these bytes.
  void add(uint64_t offset, uint64_t length);
  bool touches(uint64_t offset, uint64_t length) const;
  // Forgets the regions that these bytes are in, and returns one range with all of them that were noted, to be dropped
  // whole.
  std::optional<Range> take(uint64_t offset, uint64_t length);

 private:
  std::atomic<uint64_t> word_{0};  // 6 bits: a region has 256 KiB << that; above them a bit for each region
};

}  // namespace brickfs
