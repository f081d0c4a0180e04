// SPDX-License-Identifier: Apache-2.0
// What the explorer does with a set with copies only.
#include <fmt/core.h>

#include "tests/support/crash_explorer.h"
#include "tests/support/crash_mount.h"

namespace brickfs {
namespace {

constexpr uint64_t kCalmShare = 3;    // of mounts: in one of so many nothing happens to a brick
constexpr uint64_t kMoreTrouble = 3;  // one operation of so many has something new happen, if all copies are in sync

}  // namespace

// Something is to happen to a brick, if all are well.
void CrashExplorer::plan_trouble(RecordingMedium& medium, Recording& recording) {
  if (!has_copies() || medium.is_planned()) return;
  if (random_() % (recording.troubles.empty() ? kCalmShare : kMoreTrouble) == 0) return;
  const BrickState state = medium.state();
  const std::vector<uint32_t> may_go = dispensable(state, medium.is_durable());
  const BrickTrouble trouble = random_trouble(state, random_);
  if (std::ranges::find(may_go, 1u << trouble.brick) == may_go.end()) return;
  medium.plan(trouble);
  recording.troubles += "; " + trouble.text();
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
