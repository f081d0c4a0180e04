// SPDX-License-Identifier: Apache-2.0
#include "fs/space/unit_bitmap.h"

#include <algorithm>
#include <bit>

#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr uint32_t kWordBits = 64;

// The bits of word `word` that lie in the run.
uint64_t mask_of(UnitBitmap::Run run, uint32_t word) {
  const uint32_t low = std::max(run.first, word * kWordBits) - word * kWordBits;
  const uint32_t high = std::min(run.first + run.count, (word + 1) * kWordBits) - word * kWordBits;
  const uint64_t ones = high - low == kWordBits ? UINT64_MAX : (uint64_t{1} << (high - low)) - 1;
  return ones << low;
}

uint32_t first_word(UnitBitmap::Run run) { return run.first / kWordBits; }
uint32_t last_word(UnitBitmap::Run run) { return (run.first + run.count - 1) / kWordBits; }

}  // namespace

bool UnitBitmap::any_used(Run run) const {
  for (uint32_t word = first_word(run); word <= last_word(run); ++word) {
    if ((words_[word] & mask_of(run, word)) != 0) return true;
  }
  return false;
}

bool UnitBitmap::all_used(Run run) const {
  for (uint32_t word = first_word(run); word <= last_word(run); ++word) {
    if ((~words_[word] & mask_of(run, word)) != 0) return false;
  }
  return true;
}

void UnitBitmap::use(Run run) {
  CHECK(run.count > 0 && run.first + run.count <= kUnits && !any_used(run));
  for (uint32_t word = first_word(run); word <= last_word(run); ++word) words_[word] |= mask_of(run, word);
  free_units_ -= run.count;
}

void UnitBitmap::give_back(Run run) {
  CHECK(run.count > 0 && run.first + run.count <= kUnits && all_used(run));
  for (uint32_t word = first_word(run); word <= last_word(run); ++word) words_[word] &= ~mask_of(run, word);
  free_units_ += run.count;
}

uint32_t UnitBitmap::free_from(uint32_t unit, uint32_t most) const {
  if (unit >= kUnits || !is_free(unit)) return 0;
  return std::min(next_used(unit) - unit, most);
}

UnitBitmap::Run UnitBitmap::next_free(uint32_t from, uint32_t most) const {
  for (uint32_t word = from / kWordBits; word < words_.size(); ++word) {
    uint64_t free_bits = ~words_[word];
    if (word == from / kWordBits) free_bits &= UINT64_MAX << (from % kWordBits);
    if (free_bits == 0) continue;
    const uint32_t first = word * kWordBits + static_cast<uint32_t>(std::countr_zero(free_bits));
    return {first, free_from(first, most)};
  }
  return {};
}

UnitBitmap::Run UnitBitmap::find_free(uint32_t count) const {
  if (count > free_units_) return {};
  for (Run run = next_free(0, count); run.count > 0; run = next_free(run.first + run.count, count)) {
    if (run.count == count) return run;
  }
  return {};
}

uint32_t UnitBitmap::next_used(uint32_t from) const {
  for (uint32_t word = from / kWordBits; word < words_.size(); ++word) {
    uint64_t used = words_[word];
    if (word == from / kWordBits) used &= UINT64_MAX << (from % kWordBits);
    if (used != 0) return word * kWordBits + static_cast<uint32_t>(std::countr_zero(used));
  }
  return kUnits;
}

}  // namespace brickfs
