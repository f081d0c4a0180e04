// SPDX-License-Identifier: Apache-2.0
#include "tests/support/model_brick.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace brickfs {
namespace {

constexpr Error kStopped{ESTALE, "the client was stopped"};
constexpr size_t kGrain = 8;         // a write cut short lands in such pieces
constexpr size_t kStoreGrain = 512;  // a commit cut short

uint64_t block_number(uint64_t address) { return round_down(address, kBlockBytes); }

}  // namespace

void ModelMedium::stop_client_at(uint64_t n, uint64_t seed) {
  MutexLock lock(mutex_);
  stop_at_ = operations_ + n;
  random_.seed(seed);
}

bool ModelMedium::client_stopped() const {
  MutexLock lock(mutex_);
  return stopped_;
}

uint64_t ModelMedium::operations() const {
  MutexLock lock(mutex_);
  return operations_;
}

void ModelMedium::fail_with(int code) {
  MutexLock lock(mutex_);
  fail_with_ = code;
}

void ModelMedium::set_capacity(uint64_t blocks) {
  MutexLock lock(mutex_);
  capacity_blocks_ = blocks;
}

void ModelMedium::crash_brick(uint64_t seed) {
  MutexLock lock(mutex_);
  random_.seed(seed);
  for (const uint64_t block : allocated_) {
    if (random_() % 2 == 0) stored_.erase(block);
  }
  for (const uint64_t block : freed_) {
    if (random_() % 2 == 0) stored_.erase(block);
  }
  allocated_.clear();
  freed_.clear();
  visible_ = stored_;
}

uint64_t ModelMedium::blocks() const {
  MutexLock lock(mutex_);
  return visible_.size();
}

bool ModelMedium::has_block(BlockAddress address) const {
  MutexLock lock(mutex_);
  return visible_.contains(raw(address));
}

std::vector<std::byte> ModelMedium::read(uint64_t address, size_t bytes) const {
  MutexLock lock(mutex_);
  const Block& block = visible_.at(block_number(address));
  const auto begin = block.begin() + static_cast<ptrdiff_t>(address % kBlockBytes);
  return {begin, begin + static_cast<ptrdiff_t>(bytes)};
}

void ModelMedium::overwrite(uint64_t address, std::span<const std::byte> bytes) {
  MutexLock lock(mutex_);
  land(visible_, address, bytes);
}

void ModelMedium::flip_bit(uint64_t address, unsigned bit) {
  MutexLock lock(mutex_);
  visible_.at(block_number(address))[address % kBlockBytes] ^= static_cast<std::byte>(1u << bit);
}

Status ModelMedium::begin(bool* partly) {
  if (stopped_) return kStopped;
  if (fail_with_ != 0) return Error(fail_with_, "as the test wants");
  stopped_ = *partly = ++operations_ == stop_at_;
  return {};
}

Status ModelMedium::alloc(BlockRange blocks) {
  MutexLock lock(mutex_);
  bool partly = false;
  TRY(begin(&partly));
  if (partly && random_() % 2 == 0) return kStopped;
  if (visible_.size() + blocks.count > capacity_blocks_) return Error(ENOSPC, "model brick is full");
  for (uint64_t i = 0; i < blocks.count; ++i) {
    if (visible_.contains(raw(block_after(blocks.start, i)))) return Error(EEXIST, "block exists");
  }
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const uint64_t block = raw(block_after(blocks.start, i));
    visible_[block] = stored_[block] = Block(kBlockBytes);
    allocated_.insert(block);
    freed_.erase(block);
  }
  return partly ? Status(kStopped) : Status();
}

Status ModelMedium::free(BlockRange blocks) {
  MutexLock lock(mutex_);
  bool partly = false;
  TRY(begin(&partly));
  if (partly && random_() % 2 == 0) return kStopped;
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const uint64_t block = raw(block_after(blocks.start, i));
    if (visible_.erase(block) == 0) return Error(ENOENT, "no such block");
    freed_.insert(block);
    allocated_.erase(block);
  }
  return partly ? Status(kStopped) : Status();
}

// 0 or an errno.
int ModelMedium::transfer(const Transfer& transfer) {
  MutexLock lock(mutex_);
  bool partly = false;
  if (transfer.direction == Direction::kWrite) {
    const Status begun = begin(&partly);
    if (!begun.ok()) return begun.code();
  } else if (stopped_) {
    return ESTALE;
  }
  uint64_t address = raw(transfer.handle.blocks.start) + transfer.offset;
  for (const LocalSlice& slice : transfer.local) {
    const auto block = visible_.find(block_number(address));
    if (block == visible_.end()) return ENOENT;
    const std::span<std::byte> local(slice.data, slice.length_bytes);
    if (transfer.direction == Direction::kRead) {
      std::memcpy(local.data(), block->second.data() + address % kBlockBytes, local.size());
    } else if (partly) {
      land_in_part(address, local);
    } else {
      land(visible_, address, local);
    }
    address += local.size();
  }
  return partly ? ESTALE : 0;
}

Status ModelMedium::commit(std::span<const CommitRange> ranges) {
  MutexLock lock(mutex_);
  bool partly = false;
  TRY(begin(&partly));
  for (const CommitRange& range : ranges) {
    if (!visible_.contains(block_number(range.address))) return Error(ENOENT, "no such block");
  }
  if (partly) {
    cut_commit_short(ranges);
    return kStopped;
  }
  commit_block_table();
  for (const CommitRange& range : ranges) copy_to_store(range.address, range.length_bytes);
  return {};
}

void ModelMedium::commit_block_table() {
  for (const uint64_t block : freed_) stored_.erase(block);
  freed_.clear();
  allocated_.clear();
}

// Rounds end at barriers: some are done whole, one in part, the rest not at all.
void ModelMedium::cut_commit_short(std::span<const CommitRange> ranges) {
  const auto rounds =
      std::count_if(ranges.begin(), ranges.end(), [](const CommitRange& range) { return range.after_previous; }) + 1;
  const uint64_t reached = random_() % static_cast<uint64_t>(rounds + 1);
  if (reached > 0) commit_block_table();
  uint64_t round = 0;
  for (const CommitRange& range : ranges) {
    if (range.after_previous) ++round;
    if (round < reached) copy_to_store(range.address, range.length_bytes);
    if (round != reached) continue;
    for (uint64_t done = 0; done < range.length_bytes; done += kStoreGrain) {
      if (random_() % 2 == 0)
        copy_to_store(range.address + done, std::min<uint64_t>(kStoreGrain, range.length_bytes - done));
    }
  }
}

void ModelMedium::copy_to_store(uint64_t address, uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t step = std::min(bytes, kBlockBytes - address % kBlockBytes);
    const auto block = visible_.find(block_number(address));
    if (block != visible_.end()) land(stored_, address, std::span(block->second).subspan(address % kBlockBytes, step));
    address += step;
    bytes -= step;
  }
}

void ModelMedium::land(Blocks& on, uint64_t address, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t step = std::min<uint64_t>(bytes.size(), kBlockBytes - address % kBlockBytes);
    const auto block = on.find(block_number(address));
    if (block != on.end()) std::memcpy(block->second.data() + address % kBlockBytes, bytes.data(), step);
    address += step;
    bytes = bytes.subspan(step);
  }
}

// Nothing, all, a prefix, a suffix, or pieces at random.
void ModelMedium::land_in_part(uint64_t address, std::span<const std::byte> bytes) {
  const uint64_t how = random_() % 5;
  const size_t cut = round_down(random_() % (bytes.size() + 1), kGrain);
  if (how == 0) return;
  if (how == 1) return land(visible_, address, bytes);
  if (how == 2) return land(visible_, address, bytes.first(cut));
  if (how == 3) return land(visible_, address + cut, bytes.subspan(cut));
  for (size_t at = 0; at < bytes.size(); at += kGrain) {
    if (random_() % 2 == 0) land(visible_, address + at, bytes.subspan(at, std::min(kGrain, bytes.size() - at)));
  }
}

class ModelBrick final : public Brick {
 public:
  explicit ModelBrick(std::shared_ptr<ModelMedium> medium) : medium_(std::move(medium)) {}

  Result<Session> open(const OpenRequest&, Holder*) override {
    MutexLock lock(medium_->mutex_);
    if (medium_->stopped_) return kStopped;
    Session session;
    session.epoch = Epoch{1};
    session.boot = BootId{1};
    session.durability = medium_->durability_;
    session.capacity_blocks = session.memory_blocks = medium_->capacity_blocks_;
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
    for (const Transfer& transfer : batch.transfers) batch.finish_one(medium_->transfer(transfer));
    batch.finish_one(0);
  }
  Status wait(Batch& batch) override { return batch.status(); }
  void set_on_lost(std::function<void(Error)>) override {}

 private:
  Status carry_out(const calls::Alloc& call) { return medium_->alloc(call.blocks); }
  Status carry_out(const calls::Free& call) { return medium_->free(call.blocks); }
  Result<calls::Mapped> carry_out(const calls::Map& call) {
    return calls::Mapped{{Handle{call.blocks, call.access, raw(call.blocks.start), 1}}, {}};
  }
  Status carry_out(const calls::Unmap&) { return {}; }
  Result<ListPage> carry_out(const calls::List& call);
  Status carry_out(const calls::Commit& call) { return medium_->commit(call.ranges); }
  Result<BrickStat> carry_out(const calls::Stat& call);
  Status carry_out(const auto&) { return Error(EINVAL, "a call of the two ends of a session"); }

  const std::shared_ptr<ModelMedium> medium_;
};

Result<ListPage> ModelBrick::carry_out(const calls::List& call) {
  MutexLock lock(medium_->mutex_);
  ListPage page;
  for (auto it = medium_->visible_.lower_bound(raw(call.cursor)); it != medium_->visible_.end(); ++it) {
    if (!page.extents.empty() && raw(page.extents.back().end()) == it->first) {
      ++page.extents.back().count;
    } else {
      page.extents.push_back({BlockAddress{it->first}, 1});
    }
  }
  return page;
}

Result<BrickStat> ModelBrick::carry_out(const calls::Stat&) {
  MutexLock lock(medium_->mutex_);
  BrickStat stat;
  stat.boot = BootId{1};
  stat.durability = medium_->durability_;
  stat.volume_capacity_blocks = stat.brick_capacity_blocks = stat.memory_blocks = medium_->capacity_blocks_;
  stat.volume_used_blocks = stat.brick_used_blocks = medium_->visible_.size();
  stat.allocatable_blocks =
      medium_->capacity_blocks_ - std::min<uint64_t>(medium_->capacity_blocks_, medium_->visible_.size());
  return stat;
}

std::unique_ptr<VolumeSet> open_model_volume(const std::shared_ptr<ModelMedium>& medium) {
  {
    MutexLock lock(medium->mutex_);
    medium->stopped_ = false;
    medium->stop_at_ = UINT64_MAX;
  }
  VolumeOptions options;
  options.open.client = ClientId{1};
  options.embedded = true;
  options.soft = std::chrono::milliseconds(100);
  auto volume = VolumeSet::open(std::make_unique<ModelBrick>(medium), std::move(options), nullptr);
  EXPECT_TRUE(volume.ok());
  return volume.ok() ? std::move(*volume) : nullptr;
}

}  // namespace brickfs
