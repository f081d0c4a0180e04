// SPDX-License-Identifier: Apache-2.0
// What the crash explorer knows of a set with copies: how its replicas lie on bricks, what can happen to the bricks in
// the middle of a sequence or with the client's death, which of them may be lost so that everything must still be
// there, and what must be equal on those that are left. docs/recovery.md, "Sets with copies".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/crash_states.h"
#include "tests/support/recording_brick.h"

namespace brickfs {

// Empty bricks and their map, as `brickctl set create` leaves them.
BrickState empty_replicas(size_t bricks, size_t copies);

// All replicas are in sync, and the map knows of the boots of their bricks.
bool is_healthy(const BrickState& state);

// Sets of bricks, by bits, without which each place has still a copy that is in sync and has what it had.
std::vector<uint32_t> dispensable(const BrickState& state, bool durable);
// What a brick of a healthy set can meet while it is used.
BrickTrouble random_trouble(const BrickState& state, std::mt19937_64& random);
// The one whose copies are left out, or come back; nothing: there is none, or there are more.
std::optional<size_t> brick_that_is_out(const BrickState& state);
// What is met meanwhile: that one goes again, or any other one does for so short a time that it is waited for.
BrickTrouble random_further_trouble(const BrickState& state, size_t out, std::mt19937_64& random);

// What a mount after a crash meets. All of it leaves each place a copy in sync.
struct MountTrouble {
  uint32_t lost = 0;                  // bricks that have nothing any more; they are taken from the state
  uint32_t absent = 0;                // that are not reached when it begins ...
  std::chrono::milliseconds away{0};  // ... for so long
  std::vector<LateWrite> late;

  bool any() const { return lost != 0 || absent != 0 || !late.empty(); }
  void prepare(RecordingMedium& medium) const;
  std::string text() const;
  uint64_t digest() const;
};
MountTrouble random_mount_trouble(BrickState& state, const BrickLog& log, const CrashPoint& point,
                                  std::mt19937_64& random);

// Time passes until the map calls those replicas in sync whose bricks can be reached, and no other. Empty, or why not.
std::string await_in_sync(const RecordingMedium& medium, const std::function<void(std::chrono::milliseconds)>& pass);
// Of a set that is idle. Empty: replicas in sync of one place have the same blocks, and the same bytes in them.
std::string difference_of_replicas(const BrickState& state);

}  // namespace brickfs
