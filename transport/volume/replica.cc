// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/replica.h"

namespace brickfs {
namespace {

using enum ReplicaPhase;
using Event = ReplicaEvent;

constexpr uint8_t kLeaves = kNoteWhatItMisses | kCutOff;

constexpr ReplicaRule kRules[] = {
    // Brought back.
    {kGone, Event::kComes, {kStale}},
    {kStale, Event::kAdmitted, {kSyncing}},
    {kSyncing, Event::kTold, {kJoining}},
    {kJoining, Event::kTaken, {kInSync, kHasEverything}},
    {kJoiningLost, Event::kTaken, {kDoubted, kHasEverything}},
    {kJoiningFailing, Event::kTaken, {kFailing, kHasEverything}},

    // Lost on the way: it does not come back by itself, as what it missed meanwhile is not looked for.
    {kSyncing, Event::kSilent, {kSyncingLost}},
    {kSyncing, Event::kLost, {kSyncingFailing}},
    {kSyncing, Event::kFailed, {kSyncingLost}},
    {kSyncing, Event::kStoreFailed, {kSyncingFailing}},
    {kSyncing, Event::kBroke, {kSyncingLost}},
    {kSyncingLost, Event::kLost, {kSyncingFailing}},
    {kSyncingLost, Event::kStoreFailed, {kSyncingFailing}},
    {kJoining, Event::kSilent, {kJoiningLost}},
    {kJoining, Event::kLost, {kJoiningFailing}},
    {kJoining, Event::kFailed, {kJoiningLost}},
    {kJoining, Event::kStoreFailed, {kJoiningFailing}},
    {kJoining, Event::kBroke, {kJoiningLost}},
    {kJoiningLost, Event::kLost, {kJoiningFailing}},
    {kJoiningLost, Event::kStoreFailed, {kJoiningFailing}},
    // Nobody believes it, so nobody is marked for it.
    {kSyncing, Event::kMapOut, {kStale, kLeaves}},
    {kSyncing, Event::kMapDismissed, {kStale, kLeaves}},
    {kSyncingLost, Event::kMapOut, {kStale, kLeaves}},
    {kSyncingLost, Event::kMapDismissed, {kStale, kLeaves}},
    {kSyncingFailing, Event::kMapOut, {kStale, kLeaves | kForgetWhatItHas}},
    {kSyncingFailing, Event::kMapDismissed, {kStale, kLeaves | kForgetWhatItHas}},
    // By its mark it is believed.
    {kJoining, Event::kMapOut, {kJoiningOut}},
    {kJoining, Event::kMapDismissed, {kJoiningOut}},
    {kJoiningLost, Event::kMapOut, {kJoiningOut}},
    {kJoiningLost, Event::kMapDismissed, {kJoiningOut}},
    {kJoiningFailing, Event::kMapOut, {kJoiningOutFailing}},
    {kJoiningFailing, Event::kMapDismissed, {kJoiningOutFailing}},
    {kJoiningOut, Event::kLost, {kJoiningOutFailing}},
    {kJoiningOut, Event::kStoreFailed, {kJoiningOutFailing}},
    {kJoiningOut, Event::kMapInSync, {kJoiningLost}},
    {kJoiningOut, Event::kOthersMarked, {kStale, kLeaves}},
    {kJoiningOutFailing, Event::kMapInSync, {kJoiningFailing}},
    {kJoiningOutFailing, Event::kOthersMarked, {kStale, kLeaves | kForgetWhatItHas}},

    // In trouble.
    {kInSync, Event::kSilent, {kSilent}},
    {kInSync, Event::kLost, {kFailing}},
    {kInSync, Event::kFailed, {kDoubted}},
    {kInSync, Event::kStoreFailed, {kFailing}},
    {kSilent, Event::kAnswers, {kInSync}},
    {kSilent, Event::kLost, {kFailing}},
    {kSilent, Event::kFailed, {kDoubted}},
    {kSilent, Event::kStoreFailed, {kFailing}},
    {kDoubted, Event::kLost, {kFailing}},
    {kDoubted, Event::kStoreFailed, {kFailing}},
    {kDoubted, Event::kForgiven, {kInSync}},
    {kFailing, Event::kForgiven, {kInSync}},

    // Left out.
    {kInSync, Event::kMapOut, {kOut}},
    {kSilent, Event::kMapOut, {kOut}},
    {kDoubted, Event::kMapOut, {kOutDoubted}},
    {kFailing, Event::kMapOut, {kOutFailing}},
    {kOut, Event::kLost, {kOutFailing}},
    {kOut, Event::kFailed, {kOutDoubted}},
    {kOut, Event::kStoreFailed, {kOutFailing}},
    {kOut, Event::kMapInSync, {kInSync}},
    {kOut, Event::kOthersMarked, {kStale, kLeaves}},
    {kOutDoubted, Event::kLost, {kOutFailing}},
    {kOutDoubted, Event::kStoreFailed, {kOutFailing}},
    {kOutDoubted, Event::kForgiven, {kOut}},
    {kOutDoubted, Event::kMapInSync, {kDoubted}},
    {kOutDoubted, Event::kOthersMarked, {kStale, kLeaves}},
    {kOutFailing, Event::kForgiven, {kOut}},
    {kOutFailing, Event::kMapInSync, {kFailing}},
    {kOutFailing, Event::kOthersMarked, {kStale, kLeaves | kForgetWhatItHas}},

    // Let go. In trouble it is left out: what waits for it waits for that.
    {kInSync, Event::kMapDismissed, {kDismissed}},
    {kSilent, Event::kMapDismissed, {kOut}},
    {kDoubted, Event::kMapDismissed, {kOutDoubted}},
    {kFailing, Event::kMapDismissed, {kOutFailing}},
    {kDismissed, Event::kSilent, {kOut}},
    {kDismissed, Event::kLost, {kOutFailing}},
    {kDismissed, Event::kFailed, {kOutDoubted}},
    {kDismissed, Event::kStoreFailed, {kOutFailing}},
    {kDismissed, Event::kMapInSync, {kInSync}},
    {kDismissed, Event::kOthersMarked, {kMayGo}},
    {kMayGo, Event::kSilent, {kOut}},
    {kMayGo, Event::kLost, {kOutFailing}},
    {kMayGo, Event::kFailed, {kOutDoubted}},
    {kMayGo, Event::kStoreFailed, {kOutFailing}},
    {kMayGo, Event::kLetGo, {kGone, kForgetWhatItHas}},
};

struct Table {
  ReplicaStep steps[kReplicaPhases][kReplicaEvents]{};
};

constexpr Table make_table() {
  Table table;
  for (size_t phase = 0; phase < kReplicaPhases; ++phase) {
    for (ReplicaStep& step : table.steps[phase]) step.next = static_cast<ReplicaPhase>(phase);
  }
  for (const ReplicaRule& rule : kRules) {
    table.steps[static_cast<size_t>(rule.phase)][static_cast<size_t>(rule.event)] = rule.step;
  }
  return table;
}
constexpr Table kTable = make_table();

}  // namespace

std::span<const ReplicaRule> replica_rules() { return kRules; }

ReplicaStep step(ReplicaPhase phase, ReplicaEvent event) {
  return kTable.steps[static_cast<size_t>(phase)][static_cast<size_t>(event)];
}

const char* name_of(ReplicaPhase phase) {
  switch (phase) {
    case kStale:
      return "stale";
    case kGone:
      return "gone";
    case kSyncing:
      return "syncing";
    case kSyncingLost:
      return "syncing, lost";
    case kSyncingFailing:
      return "syncing, failing";
    case kJoining:
      return "joining";
    case kJoiningLost:
      return "joining, lost";
    case kJoiningFailing:
      return "joining, failing";
    case kJoiningOut:
      return "joining, out";
    case kJoiningOutFailing:
      return "joining, out, failing";
    case kInSync:
      return "in sync";
    case kSilent:
      return "silent";
    case kDoubted:
      return "doubted";
    case kFailing:
      return "failing";
    case kOut:
      return "out";
    case kOutDoubted:
      return "out, doubted";
    case kOutFailing:
      return "out, failing";
    case kDismissed:
      return "dismissed";
    case kMayGo:
      return "may go";
  }
  return "";
}

const char* name_of(ReplicaEvent event) {
  switch (event) {
    case Event::kAnswers:
      return "answers";
    case Event::kSilent:
      return "is silent";
    case Event::kLost:
      return "has lost something";
    case Event::kFailed:
      return "a call failed";
    case Event::kStoreFailed:
      return "its store failed";
    case Event::kForgiven:
      return "is forgiven";
    case Event::kMapInSync:
      return "map: in sync";
    case Event::kMapOut:
      return "map: out";
    case Event::kMapDismissed:
      return "map: dismissed";
    case Event::kComes:
      return "comes";
    case Event::kAdmitted:
      return "is admitted";
    case Event::kTold:
      return "is told in sync";
    case Event::kTaken:
      return "map: taken";
    case Event::kBroke:
      return "cannot be copied";
    case Event::kOthersMarked:
      return "others are marked";
    case Event::kLetGo:
      return "is let go";
  }
  return "";
}

const char* name_of(ReplicaAction action) {
  switch (action) {
    case kNothing:
      return "";
    case kNoteWhatItMisses:
      return "note what it misses";
    case kForgetWhatItHas:
      return "forget what it has";
    case kCutOff:
      return "cut it off";
    case kHasEverything:
      return "it has everything";
  }
  return "";
}

}  // namespace brickfs
