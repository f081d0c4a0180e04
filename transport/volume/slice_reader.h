// SPDX-License-Identifier: Apache-2.0
// The bytes of slices, one after another.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "transport/brick/brick.h"

namespace brickfs {

class SliceReader {
 public:
  explicit SliceReader(std::span<const LocalSlice> slices) : slices_(slices) {}

  void copy_to(std::byte* to, uint32_t length) {
    while (length > 0) {
      const LocalSlice& slice = slices_.front();
      const uint32_t part = std::min(length, slice.length_bytes - offset_);
      std::memcpy(to, slice.data + offset_, part);
      to += part;
      length -= part;
      offset_ += part;
      if (offset_ == slice.length_bytes) {
        slices_ = slices_.subspan(1);
        offset_ = 0;
      }
    }
  }

 private:
  std::span<const LocalSlice> slices_;
  uint32_t offset_ = 0;
};

}  // namespace brickfs
