// SPDX-License-Identifier: Apache-2.0
// Which of a block's 512 units are in use. Threads: none of its own.
#pragma once

#include <array>
#include <cstdint>

#include "fs/base/ids.h"

namespace brickfs {

class UnitBitmap {
 public:
  static constexpr uint32_t kUnits = kUnitsPerBlock;

  // A run within the block.
  struct Run {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  uint32_t free_units() const { return free_units_; }
  bool is_free(uint32_t unit) const { return (words_[unit / 64] >> (unit % 64) & 1) == 0; }
  bool any_used(Run run) const;
  bool all_used(Run run) const;
  void use(Run run);        // all of it must be free
  void give_back(Run run);  // all of it must be in use

  // Free units from exactly `unit` on, at most `most`.
  uint32_t free_from(uint32_t unit, uint32_t most) const;
  // The first free run at or behind `from`, cut to `most`; count 0: none.
  Run next_free(uint32_t from, uint32_t most) const;
  // The first free run of `count` units; count 0: none.
  Run find_free(uint32_t count) const;

 private:
  uint32_t next_used(uint32_t from) const;  // kUnits: none

  std::array<uint64_t, kUnits / 64> words_{};  // a bit set: in use
  uint32_t free_units_ = kUnits;
};

}  // namespace brickfs
