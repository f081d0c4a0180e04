// SPDX-License-Identifier: Apache-2.0
// Room for what is in the kernel's page cache and has not been written yet: a bounded amount, of which the kernel tells
// nobody. As long as more than that is free, whatever was written finds room. When less is free, the kernel is told to
// write everything back, and until it has, nothing but that gets room. From then on either it may have less, and so
// less room is kept, or so little is in the cache that all of the room may be used.
//
// Threads: none of its own.
#pragma once

#include <cstdint>

namespace brickfs {

class WritebackReserve {
 public:
  // 0: there is no such cache. Whether room is short is seen with the next look().
  void set(uint64_t units) {
    units_ = units;
    room_ = Room::kAmple;
  }
  // So many are free now, or will be after an allocation. True: room has just become short.
  bool look(uint64_t free_units) {
    if (room_ != Room::kAmple && free_units >= 2 * units_) room_ = Room::kAmple;
    if (room_ != Room::kAmple || free_units >= units_) return false;
    room_ = Room::kContended;
    return true;
  }
  // The kernel has written back what it had when look() said so.
  void settle() {
    if (room_ == Room::kContended) room_ = Room::kSettled;
  }
  bool is_short() const { return room_ != Room::kAmple; }
  // Nothing but write-back gets room.
  bool is_contended() const { return room_ == Room::kContended; }

 private:
  enum class Room { kAmple, kContended, kSettled };
  uint64_t units_ = 0;
  Room room_ = Room::kAmple;
};

}  // namespace brickfs
