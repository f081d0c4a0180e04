// SPDX-License-Identifier: Apache-2.0
// The states in which a crash can leave a brick, built from the log of what was done to it. Rules: docs/recovery.md,
// "The crash explorer".
//
//   client  The client dies; the brick lives. What had ended is there. Each write under way has landed wholly, not at
//   all, or in
//           part, at the grain of cache lines or of words, whatever the others did. Control calls under way were done
//           or not.
//   brick   The brick dies, and with it the client. (Of a set: any of its bricks, one or more; of the others is there
//   what was written.) What commits have made durable is there; of a commit under way a
//   part that keeps
//           its barriers; of the blocks allocated and freed since, any.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/recording_brick.h"

namespace brickfs {

enum class CrashOf { kClient, kBrick };

// How much of one write, or of one range of a commit, has landed.
struct Landing {
  enum class Shape {
    kNone,
    kAll,
    kPrefix,
    kSuffix,  // so many grains
    kWithout,
    kOnly,  // grain number `count`
    kEven,
    kOdd,     // grains
    kRandom,  // grains, by seed `count`
    kAsTorn,  // words that are equal to those of a write that was torn before
  };
  Shape shape = Shape::kNone;
  uint32_t grain = 8;
  uint32_t count = 0;

  bool covers(uint64_t index, uint64_t grains) const;
  std::string text() const;
};

// Which crash, for people and for shrinking.
struct CrashPoint {
  CrashOf of = CrashOf::kClient;
  uint64_t tick = 0;
  std::vector<std::pair<const BrickEvent*, Landing>> landings;  // under way, but for those that did not land at all
  std::string blocks;                                           // kBrick: which table changes survived
  std::string bricks;                                           // kBrick: which ones of a set

  std::string text() const;
};

class CrashStates {
 public:
  // `dense`: every place where a write can be cut; else a few of each kind.
  // Crashes before tick `from` are left out.
  // `share`: of all those only one in so many, at random.
  CrashStates(const BrickLog& log, CrashOf of, uint64_t from, bool dense, uint64_t seed, uint64_t share = 1)
      : log_(log), of_(of), from_(from), dense_(dense), share_(share), random_(seed) {}

  // False from `visit`: enough.
  using Visit = std::function<bool(BrickState&& state, const CrashPoint& point)>;
  void for_each(const Visit& visit);
  // Instead: crashes of the client that make `torn` whole, writes that an earlier crash left in part. Of another write
  // to the same place those words have landed in which it is equal to the torn one.
  void for_each_made_whole(std::span<const BrickEvent* const> torn, const Visit& visit);

 private:
  bool is_chosen() { return share_ == 1 || random_() % share_ == 0; }
  using InFlight = std::vector<const BrickEvent*>;

  // At each moment at which more is under way than before.
  using VisitMoment = std::function<bool(const BrickState& base, uint64_t tick, const InFlight& in_flight)>;
  void for_each_moment(const VisitMoment& visit);
  bool visit_client(const BrickState& base, uint64_t tick, const InFlight& in_flight, const Visit& visit);
  bool visit_bricks(const BrickState& base, uint64_t tick, const InFlight& in_flight, const Visit& visit);
  // `dead`: which places, by bits.
  bool visit_brick(const BrickState& base, const BrickState& alive, uint64_t tick, uint32_t dead,
                   const InFlight& in_flight, const Visit& visit);
  bool visit_tables(const BrickState& stored, const BrickState& alive, uint32_t dead, CrashPoint point, bool all,
                    const Visit& visit);
  std::vector<Landing> landings_of(uint64_t bytes);
  std::vector<std::vector<Landing>> commit_landings(const BrickEvent& commit);

  const BrickLog& log_;
  const CrashOf of_;
  const uint64_t from_;
  const bool dense_;
  const uint64_t share_;
  std::mt19937_64 random_;
};

}  // namespace brickfs
