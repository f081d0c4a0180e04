// SPDX-License-Identifier: Apache-2.0
// What a member writes to the bricks itself: units that the coordinator has lent it, some ahead of need, and the bytes
// of writes that no commit has covered yet.
//
// A write takes units, each once, fills them on all bricks of their places, and only then asks the coordinator to make
// them the file's content (WriteUnits). Nobody sees them before. What cannot go this way (no units are here, a brick
// does not answer) goes through the coordinator as before.
//
// On durable bricks the bytes are kept here until they are committed: of a brick that restarts before, the coordinator
// asks for them. At most kMostKept; beyond that writes go through him.
//
// Threads: any; one of its own asks for units ahead, and gives them back when they were not needed for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fs/base/ids.h"
#include "fs/base/slices.h"
#include "fs/shared/calls.h"
#include "fs/shared/member_bricks.h"
#include "transport/base/bytes.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"

namespace brickfs::shared {

class MemberUnits {
 public:
  static constexpr uint64_t kLeastBytes = 64 * kKiB;  // a smaller write goes through the coordinator
  static constexpr uint64_t kMostKept = 128 * kMiB;

  // The coordinator, as CoordinatorLink::ask(). `epoch`: which one that is (CoordinatorLink::epoch()).
  struct Coordinator {
    std::function<Result<Lent>(const GetUnits& asked)> get;
    std::function<Result<Returned>(const ReturnUnits& given)> give_back;
    std::function<Status()> commit;
    std::function<uint64_t()> epoch;
  };
  // `keeps`: the bricks are durable. `bricks` outlives it, and what the functions stand on.
  MemberUnits(MemberBricks& bricks, bool keeps, Coordinator coordinator);
  ~MemberUnits();  // nothing that was asked may wait for ever

  // Bytes that are on the bricks, with what is to be asked about them: all but the file and who writes.
  // None: the coordinator is to write them.
  std::optional<WriteUnits> fill(std::span<const LocalSlice> from);
  // What came of it. `is_known`: else it may have been done, or be done yet.
  void answered(const WriteUnits& asked, const Result<WrittenUnits>& answer, bool is_known);
  // That answer was an error, and from now on nothing comes of it any more: units that it has not taken are given back.
  void is_over(const WriteUnits& asked);

  // --- what the coordinator tells and wants, and what comes of that
  void committed(uint64_t below);
  ReturnUnits give_all_back();
  std::shared_ptr<const std::vector<std::byte>> bytes(uint64_t tag) const;  // null: they are not kept
  // He is gone: another one lends others, and has committed everything.
  void let_go();

  struct Counts {
    uint64_t writes = 0;  // to the bricks
    uint64_t bytes = 0;
    uint64_t passed_on = 0;  // writes that were left to the coordinator, though they are large enough
  };
  Counts counts() const { return {writes_.load(), bytes_.load(), passed_on_.load()}; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Kept {
    std::shared_ptr<const std::vector<std::byte>> bytes;
    uint64_t number = 0;       // it has none that is higher; 0: not known
    bool is_answered = false;  // else that may come
  };
  // Of a write of which nobody knows whether it has taken its units.
  struct GivenUp {
    std::vector<UnitRun> runs;
    uint64_t tag = 0;
  };

  std::optional<WriteUnits> take(uint64_t length);
  std::vector<UnitRun> take_units(uint64_t units) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  using StagedBytes = std::shared_ptr<std::vector<std::byte>>;
  StagedBytes stage(const WriteUnits& filled, std::span<const LocalSlice> from) const;
  Status write(const WriteUnits& filled, std::span<const LocalSlice> from);
  void put_back(const WriteUnits& filled);
  void set_in_doubt(const WriteUnits& filled);
  void keep(const WriteUnits& filled, const StagedBytes& staged);
  void drop_committed(uint64_t below) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t pooled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void look_after();
  bool look_once() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Result<Returned> return_units(ReturnUnits given) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void return_given_up() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void forget_given_up(std::span<const UnitRun> lent_again) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemberBricks& bricks_;
  const bool keeps_;
  const Coordinator coordinator_;
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> passed_on_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t lender_ ABSL_GUARDED_BY(mutex_) = 0;  // whose `pool_` is; 0: nobody's
  std::deque<UnitRun> pool_ ABSL_GUARDED_BY(mutex_);
  std::vector<LentPlace> places_ ABSL_GUARDED_BY(mutex_);
  std::vector<UnitRun> in_doubt_ ABSL_GUARDED_BY(mutex_);  // to be returned so
  std::vector<GivenUp> given_up_ ABSL_GUARDED_BY(mutex_);  // to be returned as far as they are lent yet
  bool is_stale_ ABSL_GUARDED_BY(mutex_) = true;           // places_ are to be asked for again
  Clock::time_point wanted_ ABSL_GUARDED_BY(mutex_){};     // units, last
  Clock::time_point ask_from_ ABSL_GUARDED_BY(mutex_){};
  std::map<uint64_t, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // by tag
  uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_tag_ ABSL_GUARDED_BY(mutex_) = 0;
  Thread keeper_;
};

}  // namespace brickfs::shared
