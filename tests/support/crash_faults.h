// SPDX-License-Identifier: Apache-2.0
// Runs sequences of operations on a file system whose brick fails: each kind of fault at each call, one by one, and
// some pairs. What must hold: docs/recovery.md, "Faults".
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/crash_oracle.h"
#include "tests/support/crash_workload.h"
#include "tests/support/faulty_brick.h"
#include "tests/support/recording_brick.h"

namespace brickfs {

struct FaultOptions {
  uint64_t seed = 1;
  uint64_t pairs = 0;                         // for each sequence and kind of brick
  std::function<void(uint64_t seed)> on_run;  // before each: the clock is set back, threads are ordered by the seed
  std::function<void()> delay;                // time passes
  std::function<bool()> time_is_up;
};

class FaultExplorer {
 public:
  explicit FaultExplorer(FaultOptions options);
  // Empty, or the first failure.
  std::string explore(const CrashSequence& sequence);
  uint64_t runs() const { return runs_; }

 private:
  struct Outcome {
    uint64_t calls = 0;
    bool is_open = false;  // the volume: else it was told at once that it cannot be
    std::string why_not_mounted;
    std::vector<int> answers;           // of the operations, a sync and the unmount: errno or 0
    std::vector<TreeSnapshot> history;  // after so many operations; more than mount and operations: not
    TreeSnapshot kept;                  // what another mount finds
    std::string wrong;                  // with that mount
  };
  using Faults = std::vector<PlannedFault>;

  // What a run is on and meets.
  struct Plan {
    bool durable = false;
    bool soft = false;
    Faults faults;
  };

  std::vector<Plan> plans_for(bool durable, uint64_t calls, std::mt19937_64& random) const;
  Outcome run(const CrashSequence& sequence, const Plan& plan);
  void serve(const CrashSequence& sequence, Filesystem& filesystem, Outcome& outcome);
  std::string judge_run(const CrashSequence& sequence, const Plan& plan, const Outcome& expected);
  static std::string judge_refused(const CrashSequence& sequence, const Outcome& outcome, const Outcome* intended);
  static std::string judge_lost(const Outcome& outcome, const Outcome& expected);

  const FaultOptions options_;
  BrickState bases_[2];  // durable
  uint64_t seed_ = 1;    // of the sequence
  uint64_t runs_ = 0;
  Interruption interruption_;  // of the operation under way
};

}  // namespace brickfs
