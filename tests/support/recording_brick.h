// SPDX-License-Identifier: Apache-2.0
// A brick in memory, or the bricks of a striped set, by the addresses of their blocks, that writes down all that
// changes it: each remote write, alloc, free and commit, with the ticks at which it began and ended, so that what
// overlapped is known. What a crash could leave follows from that: crash_states.h.
//
// Control calls and writes are carried out at once, but a write counts as under way until its owner was told of its end
// (wait() returned): until then nobody may rely on it.
//
// Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/crash_image.h"
#include "transport/base/mutex.h"
#include "transport/brick/brick.h"
#include "transport/volume/group.h"

namespace brickfs {

// A brick's bytes at some instant. Of a set: those of all its bricks, each of which has the blocks of its place.
struct BrickState {
  static constexpr size_t kMostPlaces = 4;
  size_t places = 1;
  std::array<uint64_t, kMostPlaces> lives{};  // how often each brick has died: it has another boot id then

  CrashImage visible;
  // Of a durable brick: what is behind it. Has the committed bytes of all blocks that are visible or whose end is not
  // durable.
  CrashImage stored;
  // Since they were last durable: blocks that a crash may take away, blocks that it may bring back.
  std::set<uint64_t> allocated;
  std::set<uint64_t> freed;

  // Blocks that differ between the two: a new holder is told their number.
  uint64_t suspect_blocks(size_t place = 0) const;
  size_t place_of(uint64_t address) const { return places == 1 ? 0 : brickfs::place_of(group_of(address)); }
  uint64_t digest() const;
};

struct BrickEvent {
  enum class Kind { kWrite, kAlloc, kFree, kCommit };
  static constexpr uint64_t kNever = UINT64_MAX;

  Kind kind = Kind::kWrite;
  uint64_t begin = 0;  // ticks: no two are equal
  uint64_t end = kNever;
  uint64_t address = 0;  // kWrite
  std::vector<std::byte> bytes;
  BlockRange blocks;                // kAlloc, kFree
  std::vector<CommitRange> ranges;  // kCommit
  std::set<uint64_t> settled;       // kCommit: blocks whose alloc or free had ended before it began
  size_t place = 0;                 // kCommit
};

// Carries out the whole of an event.
void apply(BrickState& state, const BrickEvent& event, bool durable);

struct BrickLog {
  bool durable = false;
  BrickState before;
  std::vector<BrickEvent> events;  // in the order of their beginning
  uint64_t end = 0;                // tick: nothing happened behind it
};

class RecordingMedium : public std::enable_shared_from_this<RecordingMedium> {
 public:
  RecordingMedium(BrickState state, Durability durability, uint64_t capacity_blocks, bool record);

  // Called in every call, with no lock held: before it is carried out, and before its end is told. Others may go on
  // meanwhile.
  void set_interleave(std::function<void()> interleave) { interleave_ = std::move(interleave); }
  // The medium's next client.
  std::unique_ptr<Brick> connect(size_t place = 0);
  size_t places() const;
  // The brick is killed and started again: what a commit has not taken along is gone; blocks allocated or freed since
  // may be there or not, as the seed says. No client may be connected. Not while recording.
  void restart(uint64_t seed);
  // A tick of its own, between what came before and what comes.
  uint64_t mark();
  uint64_t events() const;
  BrickState state() const;
  BrickLog take_log();

 private:
  friend class RecordingBrick;
  BrickEvent* begin(BrickEvent::Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t tick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ++ticks_; }
  void interleave() const {
    if (interleave_) interleave_();
  }
  int transfer(const Transfer& transfer, const Batch* batch);
  void finish(const Batch* batch);
  Status alloc(BlockRange blocks);
  Status free(BlockRange blocks);
  Status commit(size_t place, std::span<const CommitRange> ranges);
  std::vector<BlockRange> blocks_of(size_t place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t count_of(size_t place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Durability durability_;
  const uint64_t capacity_blocks_;  // of each brick
  const bool record_;
  std::function<void()> interleave_;  // fixed before the first client
  mutable Mutex mutex_;
  uint64_t boot_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  BrickState before_ ABSL_GUARDED_BY(mutex_);
  BrickState state_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<BrickEvent>> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<const Batch*, BrickEvent*>> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
