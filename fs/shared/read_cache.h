// SPDX-License-Identifier: Apache-2.0
// Bytes of files that a member has read from the bricks, for who reads them again: pages of 4 KiB.
//
// A page is known by the *version* of its file, a number that MemberData gives to what a file has until the next change
// and never gives again. So nothing is dropped here by a recall: pages of a former version are not found any more, and
// their room is taken in time. Whether a version still counts is looked at by who copies, behind that.
//
// Memory: what is used of kBytes. Pages share sets of kWays; of a set that one goes which was used longest ago.
//
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/base/mutex.h"
#include "transport/brick/brick.h"

namespace brickfs::shared {

class ReadCache {
 public:
  static constexpr size_t kBytes = 64 * kMiB;
  static constexpr size_t kPageBytes = 4 * kKiB;

  // `bytes`: a multiple of what a set takes.
  explicit ReadCache(size_t bytes = kBytes);

  // What that version has there. False: not all of it is here, and `into` may have anything.
  bool copy(uint64_t version, uint64_t offset, uint64_t length, std::span<const LocalSlice> into);
  // Keeps what `from` has, as far as it is whole pages. `is_end`: the file ends with it, and so does its last page.
  void keep(uint64_t version, uint64_t offset, uint64_t length, bool is_end, std::span<const LocalSlice> from);

 private:
  static constexpr size_t kWays = 8;
  struct Page {
    uint64_t version = 0;  // 0: none
    uint64_t number = 0;
    uint64_t used = 0;
  };
  struct Set {
    Mutex mutex;
    std::array<Page, kWays> pages ABSL_GUARDED_BY(mutex);
    uint64_t clock ABSL_GUARDED_BY(mutex) = 0;
  };

  Set& set_of(uint64_t version, uint64_t number, std::byte*& memory);

  std::vector<Set> sets_;
  const std::unique_ptr<std::byte[]> memory_;  // a page for each of each set
};

}  // namespace brickfs::shared
