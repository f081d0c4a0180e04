// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_explorer.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>

#include "fs/recovery/check.h"
#include "tests/support/crash_mount.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr uint64_t kFurtherShare =
    64;  // of recoveries with a known outcome: one in so many is followed further all the same
constexpr uint64_t kRedoneShare = 12;    // of all: one in so many
constexpr uint64_t kMadeWholeShare = 8;  // of those with a torn write
constexpr uint64_t kCopiesShare = 4;     // of states with copies, where there are many more
constexpr uint64_t kNestedShare = 48;    // of those, of crashes in a recovery

// Work on new files must leave the others alone: space in use was not given out again.
std::string touched_by_work(const TreeSnapshot& before, const TreeSnapshot& after) {
  const auto appended = before.files.find("/d/x");
  for (const auto& [path, file] : before.files) {
    if (appended != before.files.end() && file.ino == appended->second.ino) continue;
    const auto now = after.files.find(path);
    if (now == after.files.end() || now->second.contents != file.contents)
      return "work after a recovery changes " + path;
  }
  return "";
}

std::vector<const BrickEvent*> torn_writes(const CrashPoint& point) {
  std::vector<const BrickEvent*> torn;
  for (const auto& [event, landing] : point.landings) {
    if (event->kind == BrickEvent::Kind::kWrite && landing.shape != Landing::Shape::kAll) torn.push_back(event);
  }
  return torn;
}

uint64_t hash(const std::string& text, uint64_t seed) { return XXH3_64bits_withSeed(text.data(), text.size(), seed); }

uint64_t hash(const TreeSnapshot& snapshot) {
  uint64_t value = 0;
  for (const auto& [path, file] : snapshot.files) {
    value = hash(file.contents, hash(file.attributes, hash(path, value)));
    value = XXH3_64bits_withSeed(&file.written, sizeof(file.written), value);
  }
  return value;
}

}  // namespace

CrashExplorer::CrashExplorer(ExploreOptions options)
    : options_(std::move(options)), seed_(options_.seed), random_(seed_) {
  for (const bool crashed : {false, true}) {
    bases_[0][crashed] = make_base(Durability::kVolatile, crashed);
    bases_[1][crashed] = make_base(Durability::kDurable, crashed);
  }
}

BrickState CrashExplorer::nothing() const {
  if (has_copies()) return empty_replicas(options_.bricks, options_.copies);
  BrickState state;
  state.places = options_.bricks;
  return state;
}

BrickState CrashExplorer::make_base(Durability durability, bool crashed) {
  auto medium = medium_on(nothing(), durability == Durability::kDurable, false);
  begin_recording(*medium);
  std::string why;
  auto filesystem = mount(*medium, &why);
  CHECK(filesystem != nullptr);
  CrashWorkload workload(*filesystem);
  for (const CrashOperation& operation : crash_base()) CHECK(workload.run(operation).ok());
  BrickState left = medium->state();
  CHECK(filesystem->unmount().ok());
  end_recording();
  return crashed ? left : medium->state();
}

// A file system that is made anew has a younger root.
TreeSnapshot CrashExplorer::snapshot_of(Filesystem& filesystem) const {
  TreeSnapshot snapshot = take_snapshot(filesystem);
  if (making_) {
    snapshot.files["/"].attributes.clear();
    snapshot.files["/"].written = {};
  }
  return snapshot;
}

// --- exploring

bool CrashExplorer::run(const CrashSequence& sequence, bool dense) {
  const std::string failure = explore(sequence, dense);
  if (!failure.empty()) {
    ++failures_;
    const CrashSequence small = shrink(sequence, dense);
    if (options_.report) {
      options_.report(
          fmt::format("FAILED [{}]: {}\n  reproduce: brickfs-crash explore --bricks {} --copies {} --sequence '{}'",
                      text_of(sequence), failure, options_.bricks, options_.copies, text_of(small)));
    }
  }
  return failures_ < options_.most_failures && !time_is_up();
}

// Without each operation in turn, as long as it fails without.
CrashSequence CrashExplorer::shrink(CrashSequence sequence, bool dense) {
  for (size_t i = 0; i < sequence.size() && !time_is_up();) {
    CrashSequence less = sequence;
    less.erase(less.begin() + static_cast<ptrdiff_t>(i));
    if (explore(less, dense).empty()) {
      ++i;
    } else {
      sequence = std::move(less);
    }
  }
  return sequence;
}

std::string CrashExplorer::explore(const CrashSequence& sequence, bool dense) {
  random_.seed(hash(text_of(sequence), seed_));  // the same whatever was explored before
  if (has_copies()) return explore_copies(sequence);
  sequence_ = sequence;
  const bool mount_too = sequence.empty();
  const Ending ending = dense || random_() % 4 == 0 ? Ending::kUnmount : Ending::kSync;
  const bool client_on_durable = !dense && random_() % 2 == 0;  // else on a volatile brick; densely on both
  if (!client_on_durable) {
    const Recording recording = record(base(Durability::kVolatile), sequence, Durability::kVolatile, ending);
    const std::string failure =
        explore_recording(recording, CrashOf::kClient, mount_too ? 0 : recording.first_tick, dense);
    if (!failure.empty()) return "volatile brick: " + failure;
  }
  const Recording recording = record(base(Durability::kDurable), sequence, Durability::kDurable, ending);
  const uint64_t from = mount_too ? 0 : recording.first_tick;
  std::string failure = explore_recording(recording, CrashOf::kBrick, from, dense);
  if (failure.empty() && (dense || client_on_durable))
    failure = explore_recording(recording, CrashOf::kClient, from, false);
  return failure.empty() ? "" : "durable brick: " + failure;
}

std::string CrashExplorer::explore_making() {
  making_ = true;
  const std::string failure = explore_making_on_both();
  making_ = false;
  return failure;
}

std::string CrashExplorer::explore_making_on_both() {
  for (const Durability durability : {Durability::kVolatile, Durability::kDurable}) {
    const Recording recording = record(nothing(), {}, durability, Ending::kUnmount);
    for (const CrashOf of : {CrashOf::kClient, CrashOf::kBrick}) {
      if (of == CrashOf::kBrick && durability == Durability::kVolatile) continue;
      const std::string failure = explore_recording(recording, of, 0, !has_copies());
      if (!failure.empty()) return "making: " + failure;
    }
  }
  return "";
}

std::string CrashExplorer::explore_recording(const Recording& recording, CrashOf of, uint64_t from, bool dense) {
  if (!recording.error.empty()) return recording.error + recording.troubles;
  seen_.clear();
  outcomes_.clear();
  std::string failure;
  const uint64_t share = has_copies() ? kCopiesShare : 1;
  CrashStates(recording.log, of, from, dense, random_(), share)
      .for_each([&](BrickState&& state, const CrashPoint& point) {
        const CrashBounds bounds(recording.history, point.tick);
        MountTrouble trouble;
        if (has_copies()) trouble = random_mount_trouble(state, recording.log, point, random_);
        if (!seen_.insert(state.digest() + bounds.digest() + trouble.digest()).second) {
          ++repeats_;
          return true;
        }
        const std::string why =
            verify({state, recording.log.durable, trouble, torn_writes(point)}, recording.history, bounds);
        if (!why.empty()) failure = fmt::format("{}{}{}: {}", point.text(), trouble.text(), recording.troubles, why);
        return why.empty() && !time_is_up();
      });
  return failure;
}

// --- judging a state

std::string CrashExplorer::verify(const Case& of, const CrashHistory& history, const CrashBounds& bounds) {
  ++states_;
  auto medium = medium_on(of.state, of.durable, false);
  of.trouble.prepare(*medium);
  std::string why;
  auto volume = open_volume(*medium, &why);
  if (!volume.ok()) return why;
  const auto report = check_filesystem(**volume, {}, &why);
  why = first_line(report, why);
  if (!why.empty()) return why;
  const bool is_made = report->has_filesystem && report->inodes > 0;
  TreeSnapshot found;
  {
    // For reading only, where there is a file system: which takes no threads. The same code finds what there is.
    const auto filesystem = mount(std::move(*volume), is_made, &why);
    if (filesystem == nullptr) return why;
    found = snapshot_of(*filesystem);
  }
  why = medium->violation();
  if (why.empty()) why = judge(history, bounds, found);
  if (!why.empty()) return why;

  uint64_t outcome = hash(found) * 31 + report->transactions;
  for (const uint64_t part : {report->leaked_blocks, report->orphans, report->blocks,
                              report->findings.count(Finding::Severity::kNote), report->used_units}) {
    outcome = outcome * 1'000'003 + part;
  }
  if (random_() % kRedoneShare == 0) why = verify_redone(of);
  if (why.empty() && !of.torn.empty() && of.state.digest() % kMadeWholeShare == 0) why = verify_made_whole(of);
  if (!why.empty()) return why;
  if (!outcomes_.insert(outcome).second && random_() % kFurtherShare != 0) return "";
  return verify_further(of, history, bounds, found);
}

// The same operations again, which make a journal of the same lengths, a sync, then a crash: what the first attempt
// left half written, or out of order, is not taken for a part of it.
std::string CrashExplorer::verify_redone(const Case& of) {
  if (sequence_.empty()) return "";
  auto medium = medium_on(of.state, of.durable, false);
  of.trouble.prepare(*medium);
  std::string why;
  auto filesystem = mount(*medium, &why);
  if (filesystem == nullptr) return "for writing it " + why;
  CrashWorkload workload(*filesystem);
  const size_t operations = 1 + random_() % sequence_.size();
  for (size_t i = 0; i < operations; ++i) {
    static_cast<void>(workload.run(sequence_[i]));
    let_others_go_on(*medium, 0);
  }
  workload.finish();
  if (!filesystem->sync_all().ok()) return "after a recovery and the same again it cannot be synced";
  const TreeSnapshot done = snapshot_of(*filesystem);
  medium = medium_on(medium->state(), of.durable, false);
  filesystem = mount(*medium, &why);
  if (filesystem == nullptr) return "after a recovery, the same again, and a crash it " + why;
  why = difference(done, snapshot_of(*filesystem));
  return why.empty() ? "" : "after a recovery, the same again, and a crash it is another tree: " + why;
}

// The same operations again, and a crash in them whose torn write, to the same place, makes whole what the first one
// left torn: that is no more believed than before.
std::string CrashExplorer::verify_made_whole(const Case& of) {
  const std::mt19937_64 others = random_;  // are chosen as if this had not been
  const Durability durability = of.durable ? Durability::kDurable : Durability::kVolatile;
  const Recording again = record(of.state, sequence_, durability, Ending::kSync);
  std::string failure = again.error.empty() ? "" : fmt::format("the same again{}: {}", again.troubles, again.error);
  if (failure.empty()) {
    CrashStates(again.log, CrashOf::kClient, 0, false, 0)
        .for_each_made_whole(of.torn, [&](BrickState&& state, const CrashPoint& point) {
          ++states_;
          auto medium = medium_on(state, of.durable, false);
          std::string why;
          auto filesystem = mount(*medium, &why);
          if (filesystem != nullptr)
            why = judge(again.history, CrashBounds(again.history, point.tick), snapshot_of(*filesystem));
          if (!why.empty()) failure = fmt::format("then, while the same is done again, {}: {}", point.text(), why);
          return why.empty() && !time_is_up();
        });
  }
  random_ = others;
  return failure;
}

// Recovered for good: a second recovery changes nothing, whether the first one was cut short or not; new work is kept;
// and an unmount leaves nothing to settle.
std::string CrashExplorer::verify_further(const Case& of, const CrashHistory& history, const CrashBounds& bounds,
                                          const TreeSnapshot& found) {
  std::string why;
  auto medium = medium_on(of.state, of.durable, true);
  of.trouble.prepare(*medium);
  uint64_t served = 0;
  {
    const auto filesystem = mount(*medium, &why);
    if (filesystem == nullptr) return "for writing it " + why;
    served = medium->mark();
    why = difference(found, snapshot_of(*filesystem));
    if (!why.empty()) return "mounted for writing it is another tree: " + why;
    why = settle_replicas(*medium);
    if (!why.empty()) return "mounted for writing: " + why;
  }
  const BrickLog log = medium->take_log();
  why = verify_nested(log, history, bounds, found, served, !of.trouble.any());
  if (why.empty()) why = verify_without_any(medium->state(), of.durable, found);
  if (!why.empty()) return why;

  medium = medium_on(medium->state(), of.durable, false);
  auto filesystem = mount(*medium, &why);
  if (filesystem == nullptr) return "after a recovery it " + why;
  why = difference(found, snapshot_of(*filesystem));
  if (!why.empty()) return "a second recovery changes the tree: " + why;
  CrashWorkload workload(*filesystem);
  for (const CrashOperation& operation : crash_work()) static_cast<void>(workload.run(operation));
  const TreeSnapshot worked = snapshot_of(*filesystem);
  filesystem.reset();
  why = touched_by_work(found, worked);
  if (!why.empty()) return why;

  medium = medium_on(medium->state(), of.durable, false);
  filesystem = mount(*medium, &why);
  if (filesystem == nullptr) return "after a recovery, work and a crash it " + why;
  why = difference(worked, snapshot_of(*filesystem));
  if (!why.empty()) return "work after a recovery is lost: " + why;
  if (!filesystem->unmount().ok()) return "after a recovery it cannot be unmounted";
  filesystem.reset();

  why = check_unmounted(*medium);
  return why.empty() ? "" : "after a recovery and an unmount: " + why;
}

// Crashes in the recovery itself. What the client had found on a living brick stays, once anybody has seen it, or if
// all bricks are as they were; a brick that dies may go back behind it, though not behind what was synced.
std::string CrashExplorer::verify_nested(const BrickLog& log, const CrashHistory& history, const CrashBounds& bounds,
                                         const TreeSnapshot& found, uint64_t served, bool same_bricks) {
  for (const CrashOf of : {CrashOf::kClient, CrashOf::kBrick}) {
    if (of == CrashOf::kBrick && !log.durable) continue;
    std::string failure;
    std::unordered_set<uint64_t> seen;
    const uint64_t share = has_copies() ? kNestedShare : 1;
    CrashStates(log, of, 0, false, random_(), share).for_each([&](BrickState&& state, const CrashPoint& point) {
      MountTrouble trouble;
      if (has_copies()) trouble = random_mount_trouble(state, log, point, random_);
      if (!seen.insert(state.digest() + trouble.digest()).second) return true;
      ++states_;
      auto medium = medium_on(state, log.durable, false);
      trouble.prepare(*medium);
      std::string why;
      auto filesystem = mount(*medium, &why);
      if (filesystem != nullptr) {
        const TreeSnapshot again = snapshot_of(*filesystem);
        const bool stays = of == CrashOf::kClient && (point.tick > served || (same_bricks && !trouble.any()));
        why = stays ? difference(found, again) : judge(history, bounds, again);
      }
      if (why.empty()) why = medium->violation();
      if (!why.empty()) failure = fmt::format("then, in the recovery, {}{}: {}", point.text(), trouble.text(), why);
      return why.empty() && !time_is_up();
    });
    if (!failure.empty()) return failure;
  }
  return "";
}

}  // namespace brickfs
