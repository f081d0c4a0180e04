// SPDX-License-Identifier: Apache-2.0
// Runs clients on the real brick over a device that tears, and judges the states in which a power loss, at every step,
// can leave its disk: each is opened by the real brick again. docs/recovery.md, "The brick".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>

#include "tests/support/crash_store_workload.h"

namespace brickfs {

struct StoreExploreOptions {
  std::function<void(uint64_t seed)> on_run;  // how threads overlap; 0: not at all
  std::function<void()> interleave;
  std::function<bool()> time_is_up;
};

class StoreExplorer {
 public:
  explicit StoreExplorer(StoreExploreOptions options) : options_(std::move(options)) {}
  // One run of clients, and what may come after it. Empty, or what failed.
  std::string run(uint64_t seed);
  uint64_t states() const { return states_; }
  uint64_t repeats() const { return repeats_; }

 private:
  // Who judges a state that a power loss at that place of the log leaves.
  struct Promise {
    const StoreHistory* history = nullptr;
    size_t at = 0;
  };
  using PromiseAt = std::function<Promise(size_t place)>;

  std::string work(CrashDisk& disk, uint64_t slots, StoreHistory& history, bool* stopped);
  std::string begin_again(CrashDisk& disk, uint64_t slots, StoreHistory& next);
  std::string explore(const CrashDisk& disk, const PromiseAt& promise);
  std::string explore_place(const DiskHistory& disk, const Promise& promise);
  std::string judge(const DiskImage& image, const Promise& promise);
  void damage(DiskImage& image);
  std::string judge_reuse(CrashDisk& disk);
  DiskImage random_state(const CrashDisk& disk, size_t* place);

  const StoreExploreOptions options_;
  std::mt19937_64 random_;
  uint64_t seed_ = 0;
  uint64_t last_stamp_ = 0;
  uint64_t states_ = 0;
  uint64_t repeats_ = 0;
  std::unordered_set<uint64_t> seen_;  // of the place at which the promises are as they are
  Promise seen_for_;
};

}  // namespace brickfs
