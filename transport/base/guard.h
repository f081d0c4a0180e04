// SPDX-License-Identifier: Apache-2.0
// How many guard something that somebody may want to take away: counted so that threads on different cores do not share
// a cache line. (Elsewhere an epoch guard, or a read-side section of RCU; an epoch is a volume's here.)
//
// Who comes counts itself in and looks, then, whether what it came for is still there; who takes that away does so
// first and looks, then, until nobody is within. All of it is sequentially consistent, so one of the two sees the
// other.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "transport/base/sharded_counters.h"

namespace brickfs {

class GuardCount {
 public:
  // Where it was counted, for leave().
  size_t enter() {
    const size_t place = shard_of_thread(kPlaces);
    places_[place].count.fetch_add(1);
    return place;
  }
  void leave(size_t place) { places_[place].count.fetch_sub(1); }
  // Of those who are within all the time that this takes, none is overlooked.
  bool none() const {
    return std::all_of(places_.begin(), places_.end(), [](const Place& place) { return place.count.load() == 0; });
  }

  class GracePeriod;

 private:
  struct alignas(64) Place {
    std::atomic<int64_t> count{0};
  };
  static constexpr size_t kPlaces = 16;

  std::array<Place, kPlaces> places_;
};

// For one who takes away and does not wait: those who were within when this was made have left once each place has been
// found empty. Others may come and go meanwhile.
class GuardCount::GracePeriod {
 public:
  bool over(const GuardCount& guards) {
    for (size_t place = 0; place < kPlaces; ++place) {
      if (guards.places_[place].count.load() == 0) empty_.set(place);
    }
    return empty_.all();
  }

 private:
  std::bitset<kPlaces> empty_;
};

// Within as long as it lives.
class Guard {
 public:
  explicit Guard(GuardCount& guards) : guards_(guards), place_(guards.enter()) {}
  ~Guard() { guards_.leave(place_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  GuardCount& guards_;
  const size_t place_;
};

}  // namespace brickfs
