// SPDX-License-Identifier: Apache-2.0
#include "tests/support/recording_brick.h"

#include <algorithm>

#include "transport/base/check.h"

namespace brickfs {

// --- the medium

RecordingMedium::RecordingMedium(BrickState state, Durability durability, uint64_t capacity_blocks, bool record)
    : durability_(durability),
      capacity_blocks_(capacity_blocks),
      record_(record),
      map_(state.map == nullptr ? nullptr : std::make_shared<MemoryMap>()),
      state_(std::move(state)) {
  if (map_ != nullptr) map_->restore(*state_.map);
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
  CHECK(!record_ && state_.places == 1);
  let_die(state_, 0, durability_ == Durability::kDurable, false, seed);
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

// At once.
void RecordingMedium::carry_out(BrickEvent event) {
  apply(state_, event, durability_ == Durability::kDurable);
  if (!record_) return;
  BrickEvent* const noted = begin(event.kind);
  event.begin = noted->begin;
  event.end = tick();
  *noted = std::move(event);
}

// 0 or an errno. Of a write no more than `most_bytes` land.
int RecordingMedium::transfer(Caller caller, const Transfer& transfer, uint64_t shift, const Batch* batch,
                              uint64_t most_bytes) {
  MutexLock lock(mutex_);
  if (is_over(caller)) return ENOTCONN;
  uint64_t address = raw(transfer.handle.blocks.start) + transfer.offset + shift;
  uint64_t length = 0;
  for (const LocalSlice& slice : transfer.local) length += slice.length_bytes;
  const BlockAddress first = block_of(address);
  if (!state_.visible.contains_all({first, divide_up(address + length - raw(first), kBlockBytes)})) return EACCES;
  if (transfer.direction == Direction::kRead) {
    for (const LocalSlice& slice : transfer.local) {
      state_.visible.read(address, {slice.data, slice.length_bytes});
      if (map_ != nullptr) look_at_read(state_.place_of(address), address, {slice.data, slice.length_bytes});
      address += slice.length_bytes;
    }
    return 0;
  }
  std::vector<std::byte> bytes;
  bytes.reserve(length);
  for (const LocalSlice& slice : transfer.local) bytes.insert(bytes.end(), slice.data, slice.data + slice.length_bytes);
  if (bytes.size() > most_bytes) bytes.resize(most_bytes);
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

Status RecordingMedium::alloc(Caller caller, BlockRange blocks) {
  MutexLock lock(mutex_);
  if (is_over(caller)) return Error(ENOTCONN, "call");
  if (state_.visible.contains_any(blocks)) return Error(EEXIST, "block exists");
  if (count_of(state_.place_of(raw(blocks.start))) + blocks.count > capacity_blocks_)
    return Error(ENOSPC, "brick is full");
  BrickEvent event;
  event.kind = BrickEvent::Kind::kAlloc;
  event.blocks = blocks;
  carry_out(std::move(event));
  return {};
}

Status RecordingMedium::free(Caller caller, BlockRange blocks) {
  MutexLock lock(mutex_);
  if (is_over(caller)) return Error(ENOTCONN, "call");
  if (!state_.visible.contains_all(blocks)) return Error(ENOENT, "no such block");
  BrickEvent event;
  event.kind = BrickEvent::Kind::kFree;
  event.blocks = blocks;
  carry_out(std::move(event));
  return {};
}

std::vector<BlockRange> RecordingMedium::blocks_of(size_t part) const {
  std::vector<BlockRange> blocks = state_.visible.ranges();
  std::erase_if(blocks, [&](const BlockRange& range)
                            ABSL_NO_THREAD_SAFETY_ANALYSIS { return state_.place_of(raw(range.start)) != part; });
  return blocks;
}

uint64_t RecordingMedium::count_of(size_t part) const {
  uint64_t count = 0;
  for (const BlockRange& range : blocks_of(part)) count += range.count;
  return count;
}

size_t RecordingMedium::places() const {
  MutexLock lock(mutex_);
  return state_.places;
}

Status RecordingMedium::commit(Caller caller, std::span<const CommitRange> ranges) {
  MutexLock lock(mutex_);
  if (is_over(caller)) return Error(ENOTCONN, "call");
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
  std::erase_if(commit.settled,
                [&](uint64_t block) ABSL_NO_THREAD_SAFETY_ANALYSIS { return state_.place_of(block) != caller.part; });
  commit.place = caller.part;
  carry_out(std::move(commit));
  return {};
}

// --- the brick

class RecordingBrick final : public Brick {
 public:
  RecordingBrick(std::shared_ptr<RecordingMedium> medium, size_t part)
      : medium_(std::move(medium)), part_(part), shift_(medium_->state().shift_of(part)) {}

  Result<Session> open(const OpenRequest& request, Holder*) override {
    session_ = TRY(medium_->open_session(part_, request));
    MutexLock lock(medium_->mutex_);
    Session session;
    session.epoch = Epoch{session_ + 1};
    session.boot = medium_->state_.boot_of(part_);
    session.durability = medium_->durability_;
    session.capacity_blocks = session.memory_blocks = medium_->capacity_blocks_;
    if (medium_->durability_ == Durability::kDurable) session.suspect_blocks = medium_->state_.suspect_blocks(part_);
    return session;
  }
  Status close() override {
    medium_->end_session(part_, session_);
    return {};
  }
  void abandon() override { medium_->end_session(part_, session_); }
  Result<calls::Answer> call(const calls::Request& request) override {
    if (const int lost = medium_->reach(part_, session_)) return Error(lost, "call");
    return std::visit([&](const auto& asked) { return calls::to_answer(carry_out(asked)); }, request);
  }
  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(); }
  void submit(Batch& batch) override {
    batch.begin(batch.transfers.size() + 1);
    // To a silent brick it is on its way until wait() ends.
    if (!batch.has_callback() && medium_->is_silent(part_)) return;
    move(batch);
  }
  Status wait(Batch& batch) override {
    if (!batch.complete()) move(batch);
    medium_->finish(&batch);
    return batch.status();
  }
  std::chrono::milliseconds silence(Asking) override { return medium_->silence(part_, session_); }
  void set_on_lost(std::function<void(Error)>) override {}

 private:
  void move(Batch& batch);
  Status carry_out(const calls::Alloc& call) {
    return between([&] { return medium_->alloc({part_, session_}, here(call.blocks)); });
  }
  Status carry_out(const calls::Free& call) {
    return between([&] { return medium_->free({part_, session_}, here(call.blocks)); });
  }
  Result<calls::Mapped> carry_out(const calls::Map& call) {
    MutexLock lock(medium_->mutex_);
    if (!medium_->state_.visible.contains_all(here(call.blocks))) return Error(ENOENT, "no such block");
    return calls::Mapped{{Handle{call.blocks, call.access, raw(call.blocks.start), 1}}, {}};
  }
  Status carry_out(const calls::Unmap&) { return {}; }
  Result<ListPage> carry_out(const calls::List&) {
    MutexLock lock(medium_->mutex_);
    ListPage page{medium_->blocks_of(part_), {}};
    for (BlockRange& range : page.extents) range.start = BlockAddress{raw(range.start) - shift_};
    return page;
  }
  Status carry_out(const calls::Commit& call) {
    std::vector<CommitRange> ranges(call.ranges.begin(), call.ranges.end());
    for (CommitRange& range : ranges) range.address += shift_;
    return between([&] { return medium_->commit({part_, session_}, ranges); });
  }
  Result<BrickStat> carry_out(const calls::Stat&);
  Status carry_out(const auto&) { return Error(EINVAL, "a call of the two ends of a session"); }
  // A change, and what happens to bricks with it: before it is carried out, or before its end is told.
  template <typename Call>
  Status between(Call&& call);
  static constexpr uint64_t kTorn = 64;  // of a write that its brick's trouble cuts short
  BlockRange here(BlockRange blocks) const { return {BlockAddress{raw(blocks.start) + shift_}, blocks.count}; }

  const std::shared_ptr<RecordingMedium> medium_;
  const size_t part_;
  const uint64_t shift_;
  uint64_t session_ = 0;
};

template <typename Call>
Status RecordingBrick::between(Call&& call) {
  medium_->interleave();
  const BrickTrouble* const trouble = medium_->due();
  if (trouble != nullptr && trouble->seed % 2 == 0) medium_->strike();
  const int missed = medium_->reach(part_, session_);
  const Status status = missed == 0 ? call() : Error(missed, "call");
  if (trouble != nullptr && trouble->seed % 2 != 0) medium_->strike();
  if (missed != 0) return status;
  medium_->interleave();
  if (const int lost = medium_->reach(part_, session_)) return Error(lost, "call");
  return status;
}

void RecordingBrick::move(Batch& batch) {
  const bool writes = std::ranges::any_of(
      batch.transfers, [](const Transfer& transfer) { return transfer.direction == Direction::kWrite; });
  const BrickTrouble* const trouble = writes ? medium_->due() : nullptr;
  uint64_t most_bytes = UINT64_MAX;
  if (trouble != nullptr && trouble->seed % 2 == 0) medium_->strike();
  // What goes to a silent brick arrives in the end.
  const bool cuts = trouble != nullptr && trouble->kind != BrickTrouble::Kind::kSilent;
  if (cuts && trouble->seed % 8 == 1 && medium_->has_trouble(part_, *trouble)) most_bytes = kTorn;
  for (const Transfer& transfer : batch.transfers) {
    const int lost = medium_->reach(part_, session_);
    batch.finish_one(lost != 0 ? lost : medium_->transfer({part_, session_}, transfer, shift_, &batch, most_bytes));
  }
  if (trouble != nullptr && trouble->seed % 2 != 0) medium_->strike();
  medium_->interleave();
  if (batch.has_callback()) medium_->finish(&batch);
  batch.finish_one(trouble == nullptr ? 0 : medium_->reach(part_, session_));
}

Result<BrickStat> RecordingBrick::carry_out(const calls::Stat&) {
  MutexLock lock(medium_->mutex_);
  BrickStat stat;
  stat.boot = medium_->state_.boot_of(part_);
  stat.durability = medium_->durability_;
  stat.volume_capacity_blocks = stat.brick_capacity_blocks = stat.memory_blocks = medium_->capacity_blocks_;
  stat.volume_used_blocks = stat.brick_used_blocks = medium_->count_of(part_);
  stat.allocatable_blocks = medium_->capacity_blocks_ - std::min(medium_->capacity_blocks_, stat.volume_used_blocks);
  return stat;
}

std::unique_ptr<Brick> RecordingMedium::connect(size_t part) {
  return std::make_unique<RecordingBrick>(shared_from_this(), part);
}

}  // namespace brickfs
