// SPDX-License-Identifier: Apache-2.0
// Runs sequences of operations on a file system over a recording brick, builds the states that crashes can leave, and
// puts each through the real check and the real mount: sound, a tree that the operations made with all that was synced,
// nothing leaked, and recovered for good. What is explored and by which rules: docs/recovery.md, "The crash explorer".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/support/crash_copies.h"
#include "tests/support/crash_oracle.h"
#include "tests/support/crash_states.h"
#include "tests/support/crash_workload.h"
#include "tests/support/recording_brick.h"

namespace brickfs {

struct ExploreOptions {
  uint64_t seed = 1;
  size_t bricks = 1;                 // of the set; at most BrickState::kMostPlaces
  size_t copies = 1;                 // of each place of the set; with several, `pass` has to be there
  uint64_t most_failures = 5;        // sequences; then it ends
  std::function<bool()> time_is_up;  // null: never
  std::function<void(const std::string& line)> report;  // failures, for people
  // For a program that has its threads and its clock in hand; null: they are the machine's.
  // Before each: the clock may be set back, threads ordered by the seed. With 0: it has ended.
  std::function<void(uint64_t seed)> on_recording;
  std::function<void()> interleave;                     // within calls to the brick while something is recorded
  std::function<void(uint64_t seed)> between;           // operations: others go on, for as long as the seed says
  std::function<void(std::chrono::milliseconds)> pass;  // so long
};

class CrashExplorer {
 public:
  explicit CrashExplorer(ExploreOptions options);

  // All crash states of one sequence (and of its mount and unmount). `dense`: every place where a write can be cut.
  // Empty, or the first failure.
  std::string explore(const CrashSequence& sequence, bool dense);
  // The same of the first mount of an empty volume.
  std::string explore_making();
  // Explores, and on a failure shrinks and reports it. False when it is time to end.
  bool run(const CrashSequence& sequence, bool dense);

  // For what is explored from now on: other places, and other threads ahead.
  void set_seed(uint64_t seed) { seed_ = seed; }

  uint64_t states() const { return states_; }      // mounted and judged, all different
  uint64_t repeats() const { return repeats_; }    // built, and equal to one before
  uint64_t failures() const { return failures_; }  // sequences that had any
  bool time_is_up() const { return options_.time_is_up && options_.time_is_up(); }

 private:
  enum class Ending { kSync, kUnmount };
  struct Recording {
    BrickLog log;
    CrashHistory history;
    uint64_t first_tick = 0;  // of the first operation
    std::string error;        // something failed that must not
    std::string troubles;     // of bricks meanwhile
  };
  // While one is made.
  struct Serving {
    Recording& recording;
    RecordingMedium& medium;
    Filesystem& filesystem;
    CrashWorkload workload;
    uint64_t queue_begun = 0;
  };
  // A state that a crash left, and what the next mount of it meets.
  struct Case {
    const BrickState& state;
    bool durable;
    MountTrouble trouble;
    std::vector<const BrickEvent*> torn;  // writes that have landed in part
  };

  // A small tree, unmounted or left by a crash: with a journal to replay, behind which the mount writes a checkpoint.
  BrickState nothing() const;
  BrickState make_base(Durability durability, bool crashed);
  const BrickState& base(Durability durability) { return bases_[durability == Durability::kDurable][random_() % 2]; }
  TreeSnapshot snapshot_of(Filesystem& filesystem) const;
  std::string explore_making_on_both();
  std::string explore_recording(const Recording& recording, CrashOf of, uint64_t from, bool dense);
  std::string verify(const Case& of, const CrashHistory& history, const CrashBounds& bounds);
  std::string verify_further(const Case& of, const CrashHistory& history, const CrashBounds& bounds,
                             const TreeSnapshot& found);
  std::string verify_redone(const Case& of);
  std::string verify_made_whole(const Case& of);
  // `served`: the tick from which on it was shown to somebody.
  std::string verify_nested(const BrickLog& log, const CrashHistory& history, const CrashBounds& bounds,
                            const TreeSnapshot& found, uint64_t served, bool same_bricks);

  // crash_explorer_record.cc
  void begin_recording(RecordingMedium& medium);
  void end_recording();
  void let_others_go_on(const RecordingMedium& medium, uint64_t seed);
  Recording record(const BrickState& base, const CrashSequence& sequence, Durability durability, Ending ending);
  // One operation, or one of a queue's; the history has what has ended.
  void carry_out(const CrashOperation& operation, Serving& serving);
  void carry_out_queued(const CrashOperation& operation, Serving& serving);
  void end_queue(Serving& serving);
  void go_on(Serving& serving);

  // crash_explorer_copies.cc
  bool has_copies() const { return options_.copies > 1; }
  std::string explore_copies(const CrashSequence& sequence);
  void plan_trouble(RecordingMedium& medium, Recording& recording);
  void go_on_without(const RecordingMedium& medium);
  std::string settle_replicas(RecordingMedium& medium);
  std::string verify_without_any(const BrickState& state, bool durable, const TreeSnapshot& found);
  CrashSequence shrink(CrashSequence sequence, bool dense);

  const ExploreOptions options_;
  BrickState bases_[2][2];  // durable; crashed
  uint64_t seed_;
  std::mt19937_64 random_;
  std::unordered_set<uint64_t> seen_;      // states of the recording
  std::unordered_set<uint64_t> outcomes_;  // of recoveries that were followed further
  CrashSequence sequence_;                 // that is explored
  bool making_ = false;                    // explore_making() is under way
  uint64_t states_ = 0;
  uint64_t repeats_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace brickfs
