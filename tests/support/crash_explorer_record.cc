// SPDX-License-Identifier: Apache-2.0
// How the explorer carries out a sequence, and what it writes down of it.
#include <fmt/core.h>

#include <chrono>
#include <thread>
#include <utility>

#include "tests/support/crash_explorer.h"
#include "tests/support/crash_mount.h"

namespace brickfs {
namespace {

constexpr std::chrono::microseconds kStill{40};  // without a change on the brick: what an operation sets off has ended
constexpr std::chrono::microseconds kStillMost{2000};

void wait_until_still(const RecordingMedium& medium) {
  using Clock = std::chrono::steady_clock;
  const auto most = Clock::now() + kStillMost;
  uint64_t events = medium.events();
  auto since = Clock::now();
  while (Clock::now() < most && Clock::now() - since < kStill) {
    std::this_thread::yield();
    if (const uint64_t now = medium.events(); now != events) {
      events = now;
      since = Clock::now();
    }
  }
}

}  // namespace

void CrashExplorer::begin_recording(RecordingMedium& medium) {
  if (options_.on_recording) options_.on_recording(random_() | 1);
  medium.set_interleave(options_.interleave);
}

void CrashExplorer::end_recording() {
  if (options_.on_recording) options_.on_recording(0);
}

void CrashExplorer::let_others_go_on(const RecordingMedium& medium, uint64_t seed) {
  if (options_.between) return options_.between(seed);
  wait_until_still(medium);
}

CrashExplorer::Recording CrashExplorer::record(const BrickState& base, const CrashSequence& sequence,
                                               Durability durability, Ending ending) {
  Recording recording;
  auto medium = medium_on(base, durability == Durability::kDurable, true);
  begin_recording(*medium);
  auto filesystem = mount(*medium, &recording.error);
  if (filesystem == nullptr) return recording;
  recording.history.trees.push_back(snapshot_of(*filesystem));
  let_others_go_on(*medium, random_());
  recording.first_tick = medium->mark();
  plan_trouble(*medium, recording);
  Serving serving{recording, *medium, *filesystem, CrashWorkload(*filesystem)};
  for (const CrashOperation& operation : sequence) carry_out(operation, serving);
  end_queue(serving);
  const uint64_t begin = medium->mark();
  const Status ended = serving.workload.run({{ending == Ending::kSync ? "sync" : "unmount"}});
  const TreeSnapshot last = recording.history.trees.back();
  recording.history.add({begin, medium->mark(), ended.ok(), {}}, last);
  if (!ended.ok()) recording.error = fmt::format("ends with errno {}: {}", ended.code(), ended.error().what());
  for (const TreeSnapshot& snapshot : recording.history.trees) {
    if (!snapshot.error.empty()) recording.error = "while it is served: " + snapshot.error;
  }
  if (ending == Ending::kSync && recording.error.empty()) recording.error = settle_replicas(*medium);
  if (recording.error.empty()) recording.error = medium->violation();
  recording.log = medium->take_log();
  end_recording();
  return recording;
}

void CrashExplorer::carry_out(const CrashOperation& operation, Serving& serving) {
  if (operation.is_queued()) return carry_out_queued(operation, serving);
  end_queue(serving);
  CrashHistory& history = serving.recording.history;
  const uint64_t begin = serving.medium.mark();
  const Status status = serving.workload.run(operation);
  const CrashHistory::Step step{begin, serving.medium.mark(), status.ok() && operation.syncs(), {}};
  if (operation.goes_on()) {
    const TreeSnapshot same = history.trees.back();
    return history.add(step, same);
  }
  history.add(step, snapshot_of(serving.filesystem));
  go_on(serving);
}

void CrashExplorer::carry_out_queued(const CrashOperation& operation, Serving& serving) {
  if (serving.workload.is_queue_full()) end_queue(serving);
  if (!serving.workload.has_queue()) {
    serving.queue_begun = serving.medium.mark();
    serving.workload.begin_queue(random_() % 2 == 0, [&medium = serving.medium] { return medium.mark(); });
  }
  static_cast<void>(serving.workload.run(operation));
  if (operation.waits_for_all()) return end_queue(serving);
  if (random_() % 2 == 0) let_others_go_on(serving.medium, random_());
}

// If there is one.
void CrashExplorer::end_queue(Serving& serving) {
  std::vector<QueuedRequest> requests = serving.workload.end_queue();
  if (requests.empty()) return;
  const uint64_t end = serving.medium.mark();
  CrashHistory& history = serving.recording.history;
  if (!history.add_requests(std::move(requests), serving.queue_begun, end, snapshot_of(serving.filesystem)))
    serving.recording.error = "while it is served: no order of the requests leads to what they have left";
  go_on(serving);
}

// Between two operations.
void CrashExplorer::go_on(Serving& serving) {
  let_others_go_on(serving.medium, random_());
  go_on_without(serving.medium);
  plan_trouble(serving.medium, serving.recording);
}

}  // namespace brickfs
