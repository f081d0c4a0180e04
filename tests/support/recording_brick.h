// SPDX-License-Identifier: Apache-2.0
// A brick in memory, or the bricks of a set, that writes down all that changes it: each remote write, alloc, free and
// commit, with the ticks at which it began and ended, so that what overlapped is known. What a crash could leave
// follows from that: crash_states.h.
//
// Control calls and writes are carried out at once, but a write counts as under way until its owner was told of its end
// (wait() returned): until then nobody may rely on it.
//
// **With copies** (BrickState::map) the medium also has the map, whose changes it writes down, and sessions: an open()
// by another client ends the former one's. Bricks can be planned to have trouble (recording_trouble.cc).
//
// Threads: any.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/memory_map_store.h"
#include "tests/support/recording_state.h"
#include "transport/base/mutex.h"
#include "transport/brick/brick.h"

namespace brickfs {

// What happens to a brick of a set with copies while it is used.
struct BrickTrouble {
  enum class Kind {
    kSilent,   // it does not answer; later it does, as if nothing had been
    kCutOff,   // its sessions are lost, and nobody reaches it
    kDies,     // and starts again: a volatile one with nothing
    kIsWiped,  // and has nothing
  };
  Kind kind = Kind::kSilent;
  size_t brick = 0;
  uint64_t at = 1;                    // with the change of that number, counted from the plan on
  std::chrono::milliseconds away{0};  // then it is back
  uint64_t seed = 0;
  std::string text() const;
};

// A one-sided write of a former holder that is still under way: it lands with the call of that number, if the volume
// has not been opened by then, which fences.
struct LateWrite {
  uint64_t at = 1;
  uint64_t address = 0;  // of the image
  std::vector<std::byte> bytes;
};

class RecordingMedium : public std::enable_shared_from_this<RecordingMedium> {
 public:
  RecordingMedium(BrickState state, Durability durability, uint64_t capacity_blocks, bool record);

  // Called in every call, with no lock held: before it is carried out, and before its end is told. Others may go on
  // meanwhile.
  void set_interleave(std::function<void()> interleave) { interleave_ = std::move(interleave); }
  // The medium's next client; `part`: of the image.
  std::unique_ptr<Brick> connect(size_t part = 0);
  size_t places() const;
  // The brick is killed and started again: what a commit has not taken along is gone; blocks allocated or freed since
  // may be there or not, as the seed says. No client may be connected. Not while recording.
  void restart(uint64_t seed);
  // A tick of its own, between what came before and what comes.
  uint64_t mark();
  uint64_t events() const;
  BrickState state() const;
  BrickLog take_log();

  // --- with copies
  bool has_copies() const { return map_ != nullptr; }
  bool is_durable() const { return durability_ == Durability::kDurable; }
  std::unique_ptr<MapStore> map_store();
  std::optional<size_t> part_of(const std::string& source) const;
  void plan(const BrickTrouble& trouble);
  bool is_planned() const;  // and has not happened yet
  void add_late(LateWrite late);
  // The brick is not reached for so long, from now on.
  void cut_off(size_t brick, std::chrono::milliseconds away);
  bool is_away(size_t brick) const;
  // Since some time: what its being away has set off is seen in the map, or has ended.
  bool is_back(size_t brick) const;
  // Empty, or what a client did that none may: it read a replica that is not in sync, and older bytes than others have.
  std::string violation() const;

 private:
  friend class RecordingBrick;
  friend class RecordingMapStore;
  using Clock = std::chrono::steady_clock;

  BrickEvent* begin(BrickEvent::Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t tick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ++ticks_; }
  void interleave() const {
    if (interleave_) interleave_();
  }
  // Whose call it is: ENOTCONN if its session is over by then.
  struct Caller {
    size_t part = 0;
    uint64_t session = 0;
  };
  // Of the calls addresses are those of the image.
  int transfer(Caller caller, const Transfer& transfer, uint64_t shift, const Batch* batch, uint64_t most_bytes);
  void finish(const Batch* batch);
  Status alloc(Caller caller, BlockRange blocks);
  Status free(Caller caller, BlockRange blocks);
  Status commit(Caller caller, std::span<const CommitRange> ranges);
  void carry_out(BrickEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<BlockRange> blocks_of(size_t part) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t count_of(size_t part) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // recording_trouble.cc
  struct Link {
    uint64_t session = 0;
    ClientId client{};
  };
  struct Outage {
    Clock::time_point since{};
    Clock::time_point until{};
    bool silent = false;
  };
  Result<uint64_t> open_session(size_t part, const OpenRequest& request);
  void end_session(size_t part, uint64_t session);
  // Waits for a brick that is silent. 0 or an errno: the session is not there (any more).
  int reach(size_t part, uint64_t session);
  bool is_over(Caller caller) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_silent(size_t part) const;
  std::chrono::milliseconds silence(size_t part, uint64_t session) const;
  // One more change: it is the one that the trouble was planned for.
  const BrickTrouble* due();
  void strike();
  bool has_trouble(size_t part, const BrickTrouble& trouble) const;
  void be_away(size_t brick, bool silent, std::chrono::milliseconds away) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void die(const BrickTrouble& trouble) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void land_late() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void look_at_read(size_t part, uint64_t address, std::span<const std::byte> bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void map_changed(const SetMap& map);
  void let_pass(std::chrono::milliseconds time);
  size_t brick_of(size_t part) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_.brick_of(part * kPlaceBytes);
  }

  const Durability durability_;
  const uint64_t capacity_blocks_;  // of each part
  const bool record_;
  const std::shared_ptr<MemoryMap> map_;  // null: no copies
  std::function<void()> interleave_;      // fixed before the first client
  mutable Mutex mutex_;
  CondVar changed_;  // of who waits for a silent brick
  uint64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  BrickState before_ ABSL_GUARDED_BY(mutex_);
  BrickState state_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<BrickEvent>> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<const Batch*, BrickEvent*>> under_way_ ABSL_GUARDED_BY(mutex_);

  std::array<Link, BrickState::kMostPlaces> links_ ABSL_GUARDED_BY(mutex_);
  std::array<Outage, BrickState::kMostPlaces> outages_ ABSL_GUARDED_BY(mutex_);  // by brick
  std::optional<BrickTrouble> planned_ ABSL_GUARDED_BY(mutex_);
  BrickTrouble striking_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // since the plan
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<LateWrite> late_ ABSL_GUARDED_BY(mutex_);
  std::string violation_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
