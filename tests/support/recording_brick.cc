// SPDX-License-Identifier: Apache-2.0
#include "tests/support/recording_brick.h"

#include <algorithm>
#include <random>

#include "transport/base/check.h"

namespace brickfs {
namespace {

void alloc_in(BrickState& state, BlockRange blocks, bool durable) {
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const BlockAddress block = block_after(blocks.start, i);
    state.visible.add(block);
    if (!durable) continue;
    state.stored.add(block);
    state.allocated.insert(raw(block));
    state.freed.erase(raw(block));
  }
}

void free_in(BrickState& state, BlockRange blocks, bool durable) {
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const BlockAddress block = block_after(blocks.start, i);
    state.visible.remove(block);
    if (!durable) continue;
    // One that was never durable may still have become so in the meantime.
    state.freed.insert(raw(block));
    state.allocated.erase(raw(block));
  }
}

void commit_in(BrickState& state, const BrickEvent& commit) {
  for (const uint64_t block : commit.settled) {
    if (state.freed.erase(block) > 0) state.stored.remove(BlockAddress{block});
    state.allocated.erase(block);
  }
  for (const CommitRange& range : commit.ranges)
    state.stored.copy_from(state.visible, range.address, range.length_bytes);
}

}  // namespace

uint64_t BrickState::suspect_blocks(size_t place) const {
  uint64_t suspects = 0;
  for (const BlockAddress block : visible.blocks()) {
    if (place_of(raw(block)) != place) continue;
    if (!stored.contains(block) || stored.digest(block) != visible.digest(block)) ++suspects;
  }
  return suspects;
}

uint64_t BrickState::digest() const {
  uint64_t digest = visible.digest() * 31 + stored.digest();
  for (const uint64_t block : allocated) digest = digest * 31 + block + 1;
  for (const uint64_t block : freed) digest = digest * 37 + block + 2;
  for (const uint64_t life : lives) digest = digest * 41 + life;
  return digest;
}

void apply(BrickState& state, const BrickEvent& event, bool durable) {
  switch (event.kind) {
    case BrickEvent::Kind::kWrite:
      // Its block may be gone: then nobody will miss it.
      if (state.visible.contains_all({block_of(event.address), 1})) state.visible.write(event.address, event.bytes);
      return;
    case BrickEvent::Kind::kAlloc:
      return alloc_in(state, event.blocks, durable);
    case BrickEvent::Kind::kFree:
      return free_in(state, event.blocks, durable);
    case BrickEvent::Kind::kCommit:
      if (durable) commit_in(state, event);
      return;
  }
}

// --- the medium

RecordingMedium::RecordingMedium(BrickState state, Durability durability, uint64_t capacity_blocks, bool record)
    : durability_(durability), capacity_blocks_(capacity_blocks), record_(record), state_(std::move(state)) {
  if (record) before_ = state_;
}

uint64_t RecordingMedium::mark() {
  MutexLock lock(mutex_);
  return tick();
}

uint64_t RecordingMedium::events() const {
  MutexLock lock(mutex_);
  return ticks_;
}

void RecordingMedium::restart(uint64_t seed) {
  MutexLock lock(mutex_);
  CHECK(!record_);
  ++boot_;
  std::minstd_rand random(static_cast<uint32_t>(seed));
  BrickState after;
  CHECK(state_.places == 1);
  if (durability_ == Durability::kDurable) {
    after.stored = state_.stored;
    for (const std::set<uint64_t>& open : {state_.allocated, state_.freed}) {
      for (const uint64_t block : open) {
        if (random() % 2 == 0) after.stored.remove(BlockAddress{block});
      }
    }
    after.visible = after.stored;
  }
  state_ = std::move(after);
}

BrickState RecordingMedium::state() const {
  MutexLock lock(mutex_);
  return state_;
}

BrickLog RecordingMedium::take_log() {
  MutexLock lock(mutex_);
  BrickLog log{durability_ == Durability::kDurable, before_, {}, tick()};
  for (auto& event : events_) log.events.push_back(std::move(*event));
  events_.clear();
  under_way_.clear();
  return log;
}

BrickEvent* RecordingMedium::begin(BrickEvent::Kind kind) {
  events_.push_back(std::make_unique<BrickEvent>());
  BrickEvent* event = events_.back().get();
  event->kind = kind;
  event->begin = tick();
  return event;
}

// 0 or an errno.
int RecordingMedium::transfer(const Transfer& transfer, const Batch* batch) {
  MutexLock lock(mutex_);
  uint64_t address = raw(transfer.handle.blocks.start) + transfer.offset;
  uint64_t length = 0;
  for (const LocalSlice& slice : transfer.local) length += slice.length_bytes;
  const BlockAddress first = block_of(address);
  if (!state_.visible.contains_all({first, divide_up(address + length - raw(first), kBlockBytes)})) return EACCES;
  if (transfer.direction == Direction::kRead) {
    for (const LocalSlice& slice : transfer.local) {
      state_.visible.read(address, {slice.data, slice.length_bytes});
      address += slice.length_bytes;
    }
    return 0;
  }
  std::vector<std::byte> bytes;
  bytes.reserve(length);
  for (const LocalSlice& slice : transfer.local) bytes.insert(bytes.end(), slice.data, slice.data + slice.length_bytes);
  state_.visible.write(address, bytes);
  if (!record_) return 0;
  BrickEvent* event = begin(BrickEvent::Kind::kWrite);
  event->address = address;
  event->bytes = std::move(bytes);
  under_way_.emplace_back(batch, event);
  return 0;
}

void RecordingMedium::finish(const Batch* batch) {
  if (!record_) return;
  MutexLock lock(mutex_);
  std::erase_if(under_way_, [&](const auto& entry) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (entry.first != batch) return false;
    entry.second->end = tick();
    return true;
  });
}

Status RecordingMedium::alloc(BlockRange blocks) {
  MutexLock lock(mutex_);
  if (state_.visible.contains_any(blocks)) return Error(EEXIST, "block exists");
  if (count_of(state_.place_of(raw(blocks.start))) + blocks.count > capacity_blocks_)
    return Error(ENOSPC, "brick is full");
  alloc_in(state_, blocks, durability_ == Durability::kDurable);
  if (!record_) return {};
  BrickEvent* event = begin(BrickEvent::Kind::kAlloc);
  event->blocks = blocks;
  event->end = tick();
  return {};
}

Status RecordingMedium::free(BlockRange blocks) {
  MutexLock lock(mutex_);
  if (!state_.visible.contains_all(blocks)) return Error(ENOENT, "no such block");
  free_in(state_, blocks, durability_ == Durability::kDurable);
  if (!record_) return {};
  BrickEvent* event = begin(BrickEvent::Kind::kFree);
  event->blocks = blocks;
  event->end = tick();
  return {};
}

std::vector<BlockRange> RecordingMedium::blocks_of(size_t place) const {
  std::vector<BlockRange> blocks = state_.visible.ranges();
  std::erase_if(blocks, [&](const BlockRange& range) { return state_.place_of(raw(range.start)) != place; });
  return blocks;
}

uint64_t RecordingMedium::count_of(size_t place) const {
  uint64_t count = 0;
  for (const BlockRange& range : blocks_of(place)) count += range.count;
  return count;
}

size_t RecordingMedium::places() const {
  MutexLock lock(mutex_);
  return state_.places;
}

Status RecordingMedium::commit(size_t place, std::span<const CommitRange> ranges) {
  MutexLock lock(mutex_);
  for (const CommitRange& range : ranges) {
    const BlockAddress first = block_of(range.address);
    if (!state_.visible.contains_all({first, divide_up(range.address + range.length_bytes - raw(first), kBlockBytes)}))
      return Error(ENOENT, "no such block");
  }
  if (durability_ != Durability::kDurable) return {};
  BrickEvent commit;
  commit.kind = BrickEvent::Kind::kCommit;
  commit.ranges.assign(ranges.begin(), ranges.end());
  commit.settled = state_.allocated;
  commit.settled.insert(state_.freed.begin(), state_.freed.end());
  std::erase_if(commit.settled, [&](uint64_t block) { return state_.place_of(block) != place; });
  commit_in(state_, commit);
  if (!record_) return {};
  BrickEvent* event = begin(BrickEvent::Kind::kCommit);
  event->ranges = std::move(commit.ranges);
  event->settled = std::move(commit.settled);
  event->place = place;
  event->end = tick();
  return {};
}

// --- the brick

class RecordingBrick final : public Brick {
 public:
  RecordingBrick(std::shared_ptr<RecordingMedium> medium, size_t place) : medium_(std::move(medium)), place_(place) {}

  Result<Session> open(const OpenRequest&, Holder*) override {
    MutexLock lock(medium_->mutex_);
    Session session;
    session.epoch = Epoch{1};
    session.boot = boot();
    session.durability = medium_->durability_;
    session.capacity_blocks = session.memory_blocks = medium_->capacity_blocks_;
    if (medium_->durability_ == Durability::kDurable) session.suspect_blocks = medium_->state_.suspect_blocks(place_);
    return session;
  }
  Status close() override { return {}; }
  void abandon() override {}
  Result<calls::Answer> call(const calls::Request& request) override {
    return std::visit([&](const auto& asked) { return calls::to_answer(carry_out(asked)); }, request);
  }
  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(); }
  void submit(Batch& batch) override {
    batch.begin(batch.transfers.size() + 1);
    for (const Transfer& transfer : batch.transfers) batch.finish_one(medium_->transfer(transfer, &batch));
    medium_->interleave();
    if (batch.has_callback()) medium_->finish(&batch);
    batch.finish_one(0);
  }
  Status wait(Batch& batch) override {
    medium_->finish(&batch);
    return batch.status();
  }
  void set_on_lost(std::function<void(Error)>) override {}

 private:
  Status carry_out(const calls::Alloc& call) {
    return between([&] { return medium_->alloc(call.blocks); });
  }
  Status carry_out(const calls::Free& call) {
    return between([&] { return medium_->free(call.blocks); });
  }
  Result<calls::Mapped> carry_out(const calls::Map& call) {
    MutexLock lock(medium_->mutex_);
    if (!medium_->state_.visible.contains_all(call.blocks)) return Error(ENOENT, "no such block");
    return calls::Mapped{{Handle{call.blocks, call.access, raw(call.blocks.start), 1}}, {}};
  }
  Status carry_out(const calls::Unmap&) { return {}; }
  Result<ListPage> carry_out(const calls::List&) {
    MutexLock lock(medium_->mutex_);
    return ListPage{medium_->blocks_of(place_), {}};
  }
  Status carry_out(const calls::Commit& call) {
    return between([&] { return medium_->commit(place_, call.ranges); });
  }
  Result<BrickStat> carry_out(const calls::Stat&) {
    MutexLock lock(medium_->mutex_);
    BrickStat stat;
    stat.boot = boot();
    stat.durability = medium_->durability_;
    stat.volume_capacity_blocks = stat.brick_capacity_blocks = stat.memory_blocks = medium_->capacity_blocks_;
    stat.volume_used_blocks = stat.brick_used_blocks = medium_->count_of(place_);
    stat.allocatable_blocks = medium_->capacity_blocks_ - std::min(medium_->capacity_blocks_, stat.volume_used_blocks);
    return stat;
  }
  Status carry_out(const auto&) { return Error(EINVAL, "a call of the two ends of a session"); }
  template <typename Call>
  Status between(Call&& call) {
    medium_->interleave();
    const Status status = call();
    medium_->interleave();
    return status;
  }

  // No two bricks, and no two lives of one, have the same.
  BootId boot() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(medium_->mutex_) {
    return BootId{(medium_->boot_ + medium_->state_.lives[place_]) * BrickState::kMostPlaces + place_};
  }

  const std::shared_ptr<RecordingMedium> medium_;
  const size_t place_;
};

std::unique_ptr<Brick> RecordingMedium::connect(size_t place) {
  return std::make_unique<RecordingBrick>(shared_from_this(), place);
}

}  // namespace brickfs
