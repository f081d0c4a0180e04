// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/cached_regions.h"

#include <algorithm>
#include <bit>

namespace brickfs {
namespace {

constexpr unsigned kShiftBits = 6;
constexpr unsigned kRegions = 64 - kShiftBits;
constexpr unsigned kSmallestRegionBits = 18;  // of 256 KiB
constexpr uint64_t kShiftMask = (uint64_t{1} << kShiftBits) - 1;

class Word {
 public:
  explicit Word(uint64_t raw) : shift_(raw & kShiftMask), regions_(raw >> kShiftBits) {}
  uint64_t raw() const { return regions_ << kShiftBits | shift_; }

  unsigned region_bits() const { return kSmallestRegionBits + static_cast<unsigned>(shift_); }
  uint64_t region_of(uint64_t byte) const { return byte >> region_bits(); }
  // Each region becomes half of one of twice the size.
  void make_coarser() {
    uint64_t halves = regions_ | regions_ >> 1;
    regions_ = 0;
    for (unsigned i = 0; 2 * i < kRegions; ++i) regions_ |= (halves >> (2 * i) & 1) << i;
    ++shift_;
  }
  // Of the regions that these bytes are in, those that are there.
  uint64_t mask(uint64_t offset, uint64_t length) const {
    const uint64_t first = region_of(offset);
    if (length == 0 || first >= kRegions) return 0;
    const uint64_t last = std::min<uint64_t>(region_of(last_byte(offset, length)), kRegions - 1);
    const uint64_t up_to_last = (uint64_t{2} << last) - 1;
    return up_to_last & ~((uint64_t{1} << first) - 1);
  }
  uint64_t regions() const { return regions_; }
  void set(uint64_t regions) { regions_ |= regions; }
  void clear(uint64_t regions) { regions_ &= ~regions; }

  // Files end at INT64_MAX.
  static uint64_t last_byte(uint64_t offset, uint64_t length) {
    return length - 1 > INT64_MAX - std::min<uint64_t>(offset, INT64_MAX) ? INT64_MAX : offset + length - 1;
  }

 private:
  uint64_t shift_;
  uint64_t regions_;
};

}  // namespace

void CachedRegions::add(uint64_t offset, uint64_t length) {
  if (length == 0) return;
  for (uint64_t before = word_.load();;) {
    Word word(before);
    while (word.region_of(Word::last_byte(offset, length)) >= kRegions) word.make_coarser();
    word.set(word.mask(offset, length));
    if (word.raw() == before || word_.compare_exchange_weak(before, word.raw())) return;
  }
}

bool CachedRegions::touches(uint64_t offset, uint64_t length) const {
  const Word word(word_.load());
  return (word.regions() & word.mask(offset, length)) != 0;
}

std::optional<CachedRegions::Range> CachedRegions::take(uint64_t offset, uint64_t length) {
  for (uint64_t before = word_.load();;) {
    Word word(before);
    const uint64_t taken = word.regions() & word.mask(offset, length);
    if (taken == 0) return std::nullopt;
    word.clear(taken);
    if (!word_.compare_exchange_weak(before, word.raw())) continue;
    const auto first = static_cast<uint64_t>(std::countr_zero(taken));
    const auto end = static_cast<uint64_t>(64 - std::countl_zero(taken));
    return Range{first << word.region_bits(), std::min<uint64_t>((end - first) << word.region_bits(), INT64_MAX)};
  }
}

}  // namespace brickfs
