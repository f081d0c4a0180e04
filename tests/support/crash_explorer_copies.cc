// SPDX-License-Identifier: Apache-2.0
// What the explorer does with a set with copies only.
#include <fmt/core.h>

#include "tests/support/crash_explorer.h"
#include "tests/support/crash_mount.h"

namespace brickfs {
namespace {

constexpr int kRuns = 2;            // of each sequence, on each kind of brick: other things happen to the bricks
constexpr uint64_t kCalmShare = 3;  // of mounts: in one of so many nothing happens to a brick
constexpr std::chrono::milliseconds kLeftOut{3'000};
constexpr uint64_t kMoreTrouble = 3;  // one operation of so many has something new happen, if all copies are in sync

}  // namespace

// Other than with one copy, what happens to bricks in the middle matters more than where exactly a write is cut.
std::string CrashExplorer::explore_copies(const CrashSequence& sequence) {
  sequence_ = sequence;
  for (int run = 0; run < kRuns && !time_is_up(); ++run) {
    const Ending ending = random_() % 4 == 0 ? Ending::kUnmount : Ending::kSync;
    for (const Durability durability : {Durability::kVolatile, Durability::kDurable}) {
      const bool durable = durability == Durability::kDurable;
      const Recording recording = record(base(durability), sequence, durability, ending);
      const uint64_t from = sequence.empty() ? 0 : recording.first_tick;
      for (const CrashOf of : {CrashOf::kClient, CrashOf::kBrick}) {
        if (of == CrashOf::kBrick && !durable) continue;
        const std::string failure = explore_recording(recording, of, from, false);
        if (!failure.empty()) return fmt::format("{} bricks: {}", durable ? "durable" : "volatile", failure);
      }
    }
  }
  return "";
}

// Something is to happen to a brick, if all are well: also those that are to be left out, and are so in the map soon.
// With two at once the volume may have to wait for one of them. Or to the one whose copies are out by then, or, for a
// moment, to one without which nothing goes on.
void CrashExplorer::plan_trouble(RecordingMedium& medium, Recording& recording) {
  if (!has_copies() || medium.is_planned()) return;
  if (random_() % (recording.troubles.empty() ? kCalmShare : kMoreTrouble) == 0) return;
  const BrickState state = medium.state();
  const auto out = brick_that_is_out(state);
  if (!is_healthy(state) && !out) return;
  const BrickTrouble trouble = out ? random_further_trouble(state, *out, random_) : random_trouble(state, random_);
  for (size_t brick = 0; brick < state.bricks; ++brick) {
    if (brick != out && !medium.is_back(brick)) return;
  }
  medium.plan(trouble);
  recording.troubles += "; " + trouble.text();
}

// If a brick is away: its copies may be left out, and what they miss be noted, before anything else happens.
void CrashExplorer::go_on_without(const RecordingMedium& medium) {
  if (!has_copies() || random_() % 2 == 0) return;
  bool is_away = false;
  for (size_t brick = 0; brick < medium.state().bricks; ++brick) is_away |= medium.is_away(brick);
  if (is_away) options_.pass(kLeftOut);
}

// Of a mount that has nothing to do. Empty: its replicas are in sync, as far as their bricks are there, and equal.
std::string CrashExplorer::settle_replicas(RecordingMedium& medium) {
  if (!has_copies()) return "";
  const std::string missing = await_in_sync(medium, options_.pass);
  return missing.empty() ? difference_of_replicas(medium.state()) : missing;
}

// Any copies that are in sync have everything: that is what the others were brought up to date for.
std::string CrashExplorer::verify_without_any(const BrickState& settled, bool durable, const TreeSnapshot& found) {
  if (!has_copies()) return "";
  for (const uint32_t lost : dispensable(settled, durable)) {
    BrickState state = settled;
    for (size_t brick = 0; brick < state.bricks; ++brick) {
      if ((lost >> brick & 1) != 0) let_die(state, brick, durable, true, 0);
    }
    ++states_;
    auto medium = medium_on(state, durable, false);
    std::string why;
    const auto filesystem = mount(*medium, &why);
    if (filesystem != nullptr) why = difference(found, snapshot_of(*filesystem));
    if (!why.empty()) return fmt::format("after a recovery, without bricks {:#b}: {}", lost, why);
  }
  return "";
}

}  // namespace brickfs
