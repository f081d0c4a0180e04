// SPDX-License-Identifier: Apache-2.0
// What a replica is to the client that has the volume: one state, which step() alone changes, by what happens. The map
// says it too (ReplicaState), to whoever has the volume next; it is told first when a replica is left out, and last
// when one comes back. docs/recovery.md, "How a replica changes", has the table, which a test compares with this one.
//
// Threads: any; there is no state here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace brickfs {

// In the order of what may be done with it: is_written() and those below go by that.
enum class ReplicaPhase : uint8_t {
  // Neither written nor read.
  kStale,
  kGone,  // others have its part, and it was well when it was let go: it is to give its blocks back
  // Written, not read: it is brought up to date.
  kSyncing,
  kSyncingLost,     // to be left out
  kSyncingFailing,  // to be left out, and what it has is not believed
  // The same. It has everything, and the map calls it in sync, or may do so at any moment.
  kJoining,
  kJoiningLost,     // to be left out
  kJoiningFailing,  // to be left out, and what it has is not believed
  // The same, and left out of the map; written until the others have the mark of that.
  kJoiningOut,
  kJoiningOutFailing,  // and what it has is not believed
  // Written, and has everything.
  kInSync,
  kSilent,   // has not answered for a while: to be left out, unless it answers before
  kDoubted,  // failed at what another did: to be left out
  kFailing,  // failed at its store, or has lost something: to be left out, and what it has is not believed
  // The same, and left out of the map; written until the others have the mark of that.
  kOut,
  kOutDoubted,  // and not read, if another can be
  kOutFailing,  // and what it has is not believed
  // The same, as others have its part.
  kDismissed,
  kMayGo,  // the others have the mark of that
};
constexpr size_t kReplicaPhases = 19;

enum class ReplicaEvent : uint8_t {
  // Of the one that looks how its brick is.
  kAnswers,
  kSilent,  // has been away for a while
  kLost,    // what was not committed there, or all of it
  // Of a call.
  kFailed,       // at what another did
  kStoreFailed,  // as one whose brick is there
  kForgiven,     // there is no other to go on without it, or a reader finds it well again
  // Of the map, with its generation: older ones than the last that counted are dropped.
  kMapInSync,
  kMapOut,
  kMapDismissed,  // it has no entry any more, or is to leave and not in sync
  // Of the one that brings replicas back.
  kComes,     // as the first of it
  kAdmitted,  // written from now on. With the generation by which the map calls it syncing
  kTold,      // has everything, durably: the map is about to call it in sync
  kTaken,     // by the map, with its generation
  kBroke,     // it cannot be brought up to date now
  // Of the one that leaves replicas out: the others have a mark, of a generation that is at least that of kMapOut or
  // kMapDismissed.
  kOthersMarked,
  kLetGo,  // with nothing under way
};
constexpr size_t kReplicaEvents = 16;

// What a change of the state brings with it; bits.
enum ReplicaAction : uint8_t {
  kNothing = 0,
  kNoteWhatItMisses = 1,  // what is being written, and what it has not committed
  kForgetWhatItHas = 2,   // if it has to come back it gets everything
  kCutOff = 4,            // what is under way there ends
  kHasEverything = 8,     // nothing is missed any more
};

struct ReplicaStep {
  ReplicaPhase next;
  uint8_t actions = kNothing;
  bool operator==(const ReplicaStep&) const = default;
};

// One row of the table. What has none stays as it is.
struct ReplicaRule {
  ReplicaPhase phase;
  ReplicaEvent event;
  ReplicaStep step;
};
std::span<const ReplicaRule> replica_rules();

ReplicaStep step(ReplicaPhase phase, ReplicaEvent event);

// "in sync", "syncing, lost" ...
const char* name_of(ReplicaPhase phase);
const char* name_of(ReplicaEvent event);
const char* name_of(ReplicaAction action);  // of one bit

constexpr bool is_written(ReplicaPhase phase) { return phase >= ReplicaPhase::kSyncing; }
// Everything is written there, and was: it can be read.
constexpr bool has_everything(ReplicaPhase phase) { return phase >= ReplicaPhase::kInSync; }
// In the map, or by its mark for whoever has lost the map.
constexpr bool may_be_believed(ReplicaPhase phase) { return phase >= ReplicaPhase::kJoining; }
constexpr bool is_to_be_left_out(ReplicaPhase phase) {
  return phase == ReplicaPhase::kSyncingLost || phase == ReplicaPhase::kSyncingFailing ||
         phase == ReplicaPhase::kJoiningLost || phase == ReplicaPhase::kJoiningFailing ||
         phase == ReplicaPhase::kSilent || phase == ReplicaPhase::kDoubted || phase == ReplicaPhase::kFailing;
}
// In the map: what the others have to be marked for.
constexpr bool is_out(ReplicaPhase phase) {
  return phase == ReplicaPhase::kJoiningOut || phase == ReplicaPhase::kJoiningOutFailing ||
         phase == ReplicaPhase::kOut || phase == ReplicaPhase::kOutDoubted || phase == ReplicaPhase::kOutFailing;
}
// It has failed at something: where another can be read, it is not.
constexpr bool is_doubted(ReplicaPhase phase) {
  return phase == ReplicaPhase::kDoubted || phase == ReplicaPhase::kFailing || phase == ReplicaPhase::kOutDoubted ||
         phase == ReplicaPhase::kOutFailing;
}
// What it has is not believed.
constexpr bool is_failing(ReplicaPhase phase) {
  return phase == ReplicaPhase::kSyncingFailing || phase == ReplicaPhase::kJoiningFailing ||
         phase == ReplicaPhase::kJoiningOutFailing || phase == ReplicaPhase::kFailing ||
         phase == ReplicaPhase::kOutFailing;
}

}  // namespace brickfs
