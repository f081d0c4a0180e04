// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_faults.h"

#include <fmt/core.h>

#include <algorithm>

#include "tests/support/crash_mount.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

using Kind = PlannedFault::Kind;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kLostRequest:
      return "loses its request";
    case Kind::kLostAnswer:
      return "loses its answer";
    case Kind::kRefused:
      return "is refused";
    case Kind::kDelayed:
      return "is delayed";
    case Kind::kRepeated:
      return "is repeated";
    case Kind::kRestarted:
      return "meets a restart";
    case Kind::kRestartedThen:
      return "is followed by a restart";
    case Kind::kAbsent:
      return "loses its request, and the brick is away";
    case Kind::kAbsentThen:
      return "loses its answer, and the brick is away";
    case Kind::kInterrupted:
      return "loses its request, the brick is away, and the operation is interrupted";
    case Kind::kInterruptedThen:
      return "loses its answer, the brick is away, and the operation is interrupted";
  }
  return "";
}

bool has(const std::vector<PlannedFault>& faults, std::initializer_list<Kind> kinds) {
  return std::ranges::any_of(
      faults, [&](const PlannedFault& fault) { return std::ranges::find(kinds, fault.kind) != kinds.end(); });
}

int code_of(const Status& status) { return status.ok() ? 0 : status.code(); }

// A soft mount's brick may be away when its files are to be read; not for ever.
TreeSnapshot take_snapshot_at_last(Filesystem& filesystem) {
  constexpr int kTries = 10;
  TreeSnapshot snapshot = take_snapshot(filesystem);
  for (int i = 1; i < kTries && !snapshot.error.empty(); ++i) snapshot = take_snapshot(filesystem);
  return snapshot;
}

}  // namespace

FaultExplorer::FaultExplorer(FaultOptions options) : options_(std::move(options)) {
  for (const bool durable : {false, true}) {
    auto medium = medium_on({}, durable, false);
    options_.on_run(1);
    std::string why;
    auto filesystem = mount(*medium, &why);
    CHECK(filesystem != nullptr);
    CrashWorkload workload(*filesystem);
    for (const CrashOperation& operation : crash_base()) CHECK(workload.run(operation).ok());
    CHECK(filesystem->unmount().ok());
    filesystem.reset();
    bases_[durable] = medium->state();
  }
}

// Each fault at each call of a hard mount; a soft one tells the same until the brick is away for longer than it waits.
std::vector<FaultExplorer::Plan> FaultExplorer::plans_for(bool durable, uint64_t calls, std::mt19937_64& random) const {
  std::vector<Plan> plans;
  for (uint64_t call = 0; call < calls; ++call) {
    for (size_t kind = 0; kind < PlannedFault::kKinds; ++kind)
      plans.push_back({durable, false, {{call, static_cast<Kind>(kind)}}});
    for (const Kind kind : {Kind::kAbsent, Kind::kAbsentThen}) plans.push_back({durable, true, {{call, kind}}});
  }
  const auto any = [&] {
    return PlannedFault{random() % (calls + 4), static_cast<Kind>(random() % PlannedFault::kKinds)};
  };
  for (uint64_t i = 0; i < options_.pairs; ++i) plans.push_back({durable, random() % 2 == 0, {any(), any()}});
  return plans;
}

std::string FaultExplorer::explore(const CrashSequence& sequence) {
  std::mt19937_64 random(options_.seed * 31 + std::hash<std::string>()(text_of(sequence)));
  seed_ = random();
  for (const bool durable : {false, true}) {
    const Outcome expected = run(sequence, {.durable = durable, .soft = false, .faults = {}});
    if (!expected.wrong.empty() || !expected.why_not_mounted.empty())
      return "without a fault: " + expected.wrong + expected.why_not_mounted;
    for (const Plan& plan : plans_for(durable, expected.calls, random)) {
      if (options_.time_is_up()) return "";
      const std::string why = judge_run(sequence, plan, expected);
      if (why.empty()) continue;
      std::string text =
          fmt::format("{} brick, {} mount", durable ? "durable" : "volatile", plan.soft ? "soft" : "hard");
      for (const PlannedFault& fault : plan.faults)
        text += fmt::format(", call {} {}", fault.call, name_of(fault.kind));
      return text + ": " + why;
    }
  }
  return "";
}

FaultExplorer::Outcome FaultExplorer::run(const CrashSequence& sequence, const Plan& plan) {
  ++runs_;
  options_.on_run(seed_);
  Outcome outcome;
  auto medium = medium_on(bases_[plan.durable], plan.durable, false);
  {
    const auto wire = std::make_shared<BrickFaults>([medium] { return medium->connect(); });
    wire->plan(
        plan.faults, [medium, seed = seed_] { medium->restart(seed); }, options_.delay,
        [this] { interruption_.raise(); });
    auto volume = open_volume(wire->make_brick(), plan.soft);
    outcome.is_open = volume.ok();
    const auto filesystem = volume.ok() ? mount(std::move(*volume), false, &outcome.why_not_mounted) : nullptr;
    if (filesystem != nullptr) serve(sequence, *filesystem, outcome);
    outcome.calls = wire->calls();
  }
  if (outcome.is_open) outcome.wrong = check_ended(*medium);
  std::string why;
  auto filesystem = mount(*medium, &why);
  if (filesystem == nullptr) outcome.wrong = "afterwards it " + why;
  if (!outcome.wrong.empty()) return outcome;
  outcome.kept = take_snapshot(*filesystem);
  if (!filesystem->unmount().ok()) outcome.wrong = "afterwards it cannot be unmounted";
  filesystem.reset();
  if (outcome.wrong.empty()) outcome.wrong = check_unmounted(*medium);
  return outcome;
}

void FaultExplorer::serve(const CrashSequence& sequence, Filesystem& filesystem, Outcome& outcome) {
  CrashWorkload workload(filesystem, {.interruption = &interruption_});  // as what a process asks for
  outcome.history.push_back(take_snapshot_at_last(filesystem));
  for (const CrashOperation& operation : sequence) {
    interruption_.clear();
    outcome.answers.push_back(code_of(workload.run(operation)));
    outcome.history.push_back(take_snapshot_at_last(filesystem));
  }
  outcome.answers.push_back(code_of(filesystem.sync_all()));
  outcome.answers.push_back(code_of(filesystem.unmount()));
}

std::string FaultExplorer::judge_run(const CrashSequence& sequence, const Plan& plan, const Outcome& expected) {
  const Outcome outcome = run(sequence, plan);
  if (!plan.durable && has(plan.faults, {Kind::kRestarted, Kind::kRestartedThen})) return judge_lost(outcome, expected);
  if (!outcome.wrong.empty() || !outcome.is_open) return outcome.wrong;
  const bool interrupted = has(plan.faults, {Kind::kInterrupted, Kind::kInterruptedThen});
  const bool given_up = interrupted || (plan.soft && has(plan.faults, {Kind::kAbsent, Kind::kAbsentThen}));
  if (given_up || has(plan.faults, {Kind::kRefused}))
    return judge_refused(sequence, outcome, given_up ? &expected : nullptr);
  // All else is the brick's and the network's business: nobody sees it.
  if (!outcome.why_not_mounted.empty()) return outcome.why_not_mounted;
  for (size_t i = 0; i < expected.answers.size(); ++i) {
    if (outcome.answers[i] != expected.answers[i])
      return fmt::format("operation {} answers errno {}, not {}", i + 1, outcome.answers[i], expected.answers[i]);
  }
  for (size_t i = 0; i < expected.history.size(); ++i) {
    const std::string why = difference(expected.history[i], outcome.history[i]);
    if (!why.empty()) return fmt::format("after {} operations {}", i, why);
  }
  const std::string why = difference(expected.kept, outcome.kept);
  return why.empty() ? "" : "another mount finds that " + why;
}

// An operation that was refused something, or given up, fails, and has changed nothing; what a sync returned for is
// kept, and the rest in order. Given up with a transfer under way (there is something `intended`), it may have written
// over bytes in place.
std::string FaultExplorer::judge_refused(const CrashSequence& sequence, const Outcome& outcome,
                                         const Outcome* intended) {
  if (!outcome.why_not_mounted.empty()) return "";
  for (size_t i = 0; intended != nullptr && i < sequence.size() && outcome.answers[i] == intended->answers[i]; ++i) {
    if (!outcome.history[i + 1].error.empty()) break;
    const std::string why = difference(intended->history[i + 1], outcome.history[i + 1]);
    if (!why.empty()) return fmt::format("operation {} was not given up, nor any before it, and {}", i + 1, why);
  }
  for (size_t i = 0; i < sequence.size(); ++i) {
    if (outcome.answers[i] == 0 || !outcome.history[i].error.empty() || !outcome.history[i + 1].error.empty()) continue;
    const std::string why = intended == nullptr
                                ? difference(outcome.history[i], outcome.history[i + 1])
                                : judge_failed(outcome.history[i], intended->history[i + 1], outcome.history[i + 1]);
    if (!why.empty()) return fmt::format("operation {} fails with errno {}, and {}", i + 1, outcome.answers[i], why);
  }
  std::vector<TreeSnapshot> served;
  for (const TreeSnapshot& snapshot : outcome.history) {
    if (snapshot.error.empty()) served.push_back(snapshot);
  }
  if (served.empty()) return "";
  const bool synced = outcome.answers[sequence.size()] == 0 && outcome.history.back().error.empty();
  return judge(served, synced ? served.size() - 1 : 0, served.size() - 1, outcome.kept);
}

// The data is gone: errors, or what was there, but no other bytes.
std::string FaultExplorer::judge_lost(const Outcome& outcome, const Outcome& expected) {
  for (size_t i = 0; i < outcome.history.size(); ++i) {
    for (const auto& known_file : outcome.history[i].files) {
      const auto& path = known_file.first;
      const auto& file = known_file.second;
      const bool known = std::ranges::any_of(expected.history, [&](const TreeSnapshot& snapshot) {
        const auto at = snapshot.files.find(path);
        return at != snapshot.files.end() && at->second.contents == file.contents;
      });
      if (!known) return fmt::format("the brick has lost all, and after {} operations {} has other bytes", i, path);
    }
  }
  return "";
}

}  // namespace brickfs
