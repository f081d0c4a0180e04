// SPDX-License-Identifier: Apache-2.0
// Who of a coordinator's members relies on what of which inode. Whoever changes something has it recalled from them
// first; until the change has been made nobody is granted it anew.
//
// **A grant** is registered first, and what it is about is read behind that: a change that begins in between recalls
// it. The recall may reach the member before the grant does: the member sees to that (fs/shared/held.h).
//
// **A recall** is told when the member asks for recalls (await()), and has been done when he says so. Of one who does
// not say so for 2 s nothing is renewed any more: what he relies on ends with his cache lease (kCacheLease behind his
// last renewal), unless he says before that that he has dropped all. A change waits no longer than both.
//
// **Without machines** nothing is looked at: a change is only counted, and whoever joins waits for those.
//
// **Standing**: a machine whose kernel reads a file by pages, without asking, is granted nothing. Each change of the
// file's bytes is recalled from it before it is made, and once more behind that, before anybody is told of it: what
// its kernel has read meanwhile may be what was there before.
//
// Machines are numbered as sessions are; 0 is the coordinator's own, which relies on nothing here.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fs/base/ids.h"
#include "fs/shared/calls.h"
#include "fs/shared/lease.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs::shared {

// What is held and was not renewed for so long is not relied on any more.
constexpr std::chrono::milliseconds kCacheLease{3'000};

class Leases {
 public:
  using Clock = std::chrono::steady_clock;

  // What a change is about.
  class Scope {
   public:
    // `asker_drops`: the machine that asks for the change has dropped it by itself.
    void add(Ino ino, Lease kinds, bool asker_drops = true);

   private:
    friend class Leases;
    struct Part {
      Ino ino = kNoIno;
      Lease kinds = Lease::kNone;
      bool asker_drops = true;
    };
    static constexpr size_t kMostParts = 6;
    std::span<const Part> parts() const { return std::span(parts_).first(count_); }
    std::array<Part, kMostParts> parts_;
    size_t count_ = 0;
  };
  // A change under way: until it goes, nothing of its scope is granted.
  class Change {
   public:
    Change(Change&& other) noexcept
        : leases_(std::exchange(other.leases_, nullptr)),
          scope_(other.scope_),
          asker_(other.asker_),
          is_unseen_(other.is_unseen_) {}
    ~Change();

   private:
    friend class Leases;
    Change(Leases* leases, const Scope& scope, bool is_unseen = false)
        : leases_(leases), scope_(scope), is_unseen_(is_unseen) {}
    Leases* leases_;
    Scope scope_;
    std::optional<uint64_t> asker_;  // of one that may be made: others have it recalled behind it, too
    bool is_unseen_;
  };

  struct Counts {
    uint64_t held = 0;  // inodes that members rely on, of each member
    uint64_t recalls = 0;
    uint64_t lapsed = 0;  // recalls' ends that were waited out
  };

  // A machine comes, and goes with all it relied on. Waits for changes that were begun without machines.
  void join(uint64_t machine);
  void leave(uint64_t machine);

  // Which of these it may rely on from now on. What it has it keeps.
  Lease grant(uint64_t machine, Ino ino, Lease kinds);
  // Its kernel reads that file by pages, until it lets go of the inode. Before changes begin.
  void stand(uint64_t machine, Ino ino);
  // It has let go of that inode: what it may rely on of it is recalled, in time. Nobody waits for that.
  void release(uint64_t machine, Ino ino);

  // All others than `asker` have dropped what is to be changed. EINTR: it is not to be made.
  Result<Change> begin(const Scope& scope, uint64_t asker, const Interruption* by);
  // Nobody else relies on it; else none, and nobody is asked.
  std::optional<Change> try_begin(const Scope& scope);
  // Of whatever scope, while there are no machines; else none.
  std::optional<Change> begin_unseen();
  // Until it is taken back no change begins: members of a former coordinator may rely on what they had from him. What
  // is more than a change waits for that, too (await_going_on): EINTR.
  void hold_back(bool hold);
  bool is_held_back() const;
  Status await_going_on(const Interruption* by);

  // The machine says that it is there, and which generation of its leases it has begun. Answers which is in force: of
  // another one than it has begun all is to be dropped; 0: nothing is renewed, as it owes us a recall.
  uint64_t renew(uint64_t machine, uint64_t generation);
  // Recalls for that machine, as soon as there are some or it is called, but not later than that. `done`: told before,
  // and dropped.
  std::vector<Recall> await(uint64_t machine, std::span<const uint64_t> done, Clock::time_point until,
                            const Interruption& ending);
  void tell_done(uint64_t machine, std::span<const uint64_t> done);
  // Who awaits its recalls, or does so next, does not wait: there is something else to be told.
  void call(uint64_t machine);

  // To be called four times a second: recalls that nobody answers end.
  void look(Clock::time_point now);
  Counts counts() const;

 private:
  struct Holder {
    uint64_t machine;
    Lease kinds;
    bool stands = false;
  };
  struct Entry {
    std::array<uint32_t, kLeaseKinds> closed{};  // by how many changes and recalls
    std::vector<Holder> holders;

    bool is_closed(Lease kinds) const;
    void close(Lease kinds, int by);
    Lease held_by(uint64_t machine) const;
  };
  struct Shard {
    Mutex mutex;
    std::unordered_map<Ino, Entry> entries ABSL_GUARDED_BY(mutex);
  };
  struct Pending {
    Ino ino;
    Lease kinds;
    Clock::time_point since;
  };
  struct Machine {
    uint64_t generation = 1;
    bool lapses = false;  // nothing is renewed until it has begun the next generation
    bool is_called = false;
    bool is_dropped = false;  // just now: what it had is being taken from it
    Clock::time_point renewed = Clock::now();
    std::map<uint64_t, Pending> pending;  // recalls
    std::deque<uint64_t> untold;
    std::shared_ptr<CondVar> told = std::make_shared<CondVar>();
  };
  struct Wanted {
    uint64_t machine;
    Ino ino;
    Lease kinds;
  };
  using Awaited = std::vector<std::pair<uint64_t, uint64_t>>;  // machine, recall

  static constexpr size_t kShards = 64;
  Shard& shard_of(Ino ino) { return shards_[(raw(ino) * 0x9e3779b97f4a7c15u) >> 58]; }
  std::vector<Wanted> close(const Scope& scope, uint64_t asker);
  std::vector<Wanted> close_standing(const Scope& scope, uint64_t asker);
  void open(Ino ino, Lease kinds);
  void stop_standing(uint64_t machine);
  void remove_holder(Shard& shard, Ino ino, uint64_t machine, Lease kinds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  Awaited recall(std::span<const Wanted> wanted);
  Status await_done(const Awaited& awaited, const Interruption* by);
  void finish(uint64_t machine, std::span<const Pending> done);
  std::vector<Pending> take_pending(Machine& machine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop(uint64_t machine, std::span<const Pending> pending);

  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> stood_{0};  // ever

  mutable Mutex mutex_;  // never taken with a shard's
  CondVar done_;         // of changes that wait for recalls, or are held back
  std::map<uint64_t, Machine> machines_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> machine_count_{0};
  std::atomic<size_t> unseen_{0};  // changes
  bool is_held_back_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_recall_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t lapsed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace brickfs::shared
