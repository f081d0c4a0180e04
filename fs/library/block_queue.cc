// SPDX-License-Identifier: Apache-2.0
// What is submitted together travels as one batch. The polling thread waits for the oldest one, which drives the
// transport, and takes along what is complete by then; a poll that does not wait leaves that to a thread. Of a batch
// that fails each request is done once more by itself, so that each has the error that is its own.
//
// With BRICKFS_QUEUE_BACKGROUND each request is a batch of its own, whose callback is its completion.
#include <algorithm>

#include "fs/library/block_volume.h"
#include "fs/library/queue.h"
#include "fs/library/workers.h"
#include "transport/brick/limits.h"

namespace brickfs::library {
namespace {

class BlockQueue final : public brickfs_queue {
 public:
  BlockQueue(BlockVolume& volume, unsigned most, bool background);
  ~BlockQueue() override;
  Status start() { return done_.start(background_, depth); }

  void submit(const brickfs_request& request) override;
  void begin() override;
  int poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) override;
  int descriptor() const override { return background_ ? done_.descriptor() : -1; }

 private:
  struct Slot {
    explicit Slot(Batch::Done done) : batch(done, this) {}
    brickfs_completion result(const Status& status) const {
      return {user_data, status.ok() ? static_cast<int64_t>(bytes) : code_of(status)};
    }

    BlockQueue* queue = nullptr;
    Direction direction = Direction::kRead;
    uint64_t address = 0;
    Slices slices;
    std::vector<LocalSlice> cut;
    BuffersInUse buffers;
    uint64_t user_data = 0;
    uint64_t bytes = 0;
    Batch batch;  // of a background queue; else where its transfers are planned
  };
  // Submitted together.
  struct Group {
    std::vector<Slot*> slots;
    Batch batch;
    bool driven = false;  // a thread waits for it too, so it is not used again
  };

  static void complete(Batch& batch, void* slot);
  Slot* take_slot();
  void give_back(Slot* slot);
  Status plan(const brickfs_request& request, Slot& slot);
  void add_to_group(Slot* slot);
  void collect();
  void end(Group& group);
  Status redo(Slot& slot);
  void drive();

  BlockVolume& volume_;
  const bool background_;
  Completions done_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Mutex mutex_;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
  CondVar freed_;
  // Not of a background queue.
  std::vector<std::shared_ptr<Group>> spare_;
  std::vector<std::shared_ptr<Group>> under_way_;  // oldest first
  std::shared_ptr<Group> gathered_;                // to be submitted
  Workers driver_{1};
};

BlockQueue::BlockQueue(BlockVolume& volume, unsigned most, bool background)
    : brickfs_queue(volume.children, most), volume_(volume), background_(background) {
  for (unsigned i = 0; i < most; ++i) {
    slots_.push_back(std::make_unique<Slot>(background ? &BlockQueue::complete : nullptr));
    slots_.back()->queue = this;
    free_.push_back(slots_.back().get());
  }
}

BlockQueue::~BlockQueue() {
  for (const auto& group : under_way_) static_cast<void>(volume_.wait(group->batch));
  if (!background_) return;
  MutexLock lock(mutex_);
  while (free_.size() < slots_.size()) freed_.wait(lock);
}

// The last that is done with the batch: its slot may be used again at once.
void BlockQueue::complete(Batch& batch, void* context) {
  Slot* const slot = static_cast<Slot*>(context);
  BlockQueue& queue = *slot->queue;
  const brickfs_completion completion = slot->result(batch.status());
  slot->buffers.clear();
  MutexLock lock(queue.mutex_);
  queue.done_.add(completion);
  queue.free_.push_back(slot);
  queue.freed_.notify_one();
}

BlockQueue::Slot* BlockQueue::take_slot() {
  MutexLock lock(mutex_);
  while (free_.empty()) freed_.wait(lock);  // a completion comes a moment before its slot
  Slot* const slot = free_.back();
  free_.pop_back();
  return slot;
}

void BlockQueue::give_back(Slot* slot) {
  MutexLock lock(mutex_);
  free_.push_back(slot);
}

Status BlockQueue::plan(const brickfs_request& request, Slot& slot) {
  slot.slices.clear();
  if (request.operation != BRICKFS_READ && request.operation != BRICKFS_WRITE) return Error(EINVAL, "operation");
  if (request.file != nullptr || request.descriptor != 0 || request.reserved != 0) return Error(EINVAL, "request");
  TRY(request.count > 0 ? add_slices(slot.slices, request.vectors, request.count, volume_.children)
                        : add_slices(slot.slices, request.data, request.length, request.buffer, volume_.children));
  slot.user_data = request.user_data;
  slot.bytes = bytes_of(slot.slices);
  slot.address = request.offset;
  slot.direction = request.operation == BRICKFS_READ ? Direction::kRead : Direction::kWrite;
  return volume_.plan(slot.direction, slot.address, slot.slices, slot.batch, slot.cut);
}

void BlockQueue::submit(const brickfs_request& request) {
  Slot* const slot = take_slot();
  const Status planned = plan(request, *slot);
  if (!planned.ok()) {
    done_.add({request.user_data, code_of(planned)});
    return give_back(slot);
  }
  slot->buffers.add(request);
  if (background_) return volume_.submit(slot->batch);
  add_to_group(slot);
}

void BlockQueue::add_to_group(Slot* slot) {
  const size_t transfers = slot->batch.transfers.size();
  if (gathered_ && gathered_->batch.transfers.size() + transfers > limits::kTransfersPerBatch) begin();
  if (!gathered_ && !spare_.empty()) {
    gathered_ = std::move(spare_.back());
    spare_.pop_back();
  }
  if (!gathered_) gathered_ = std::make_shared<Group>();
  gathered_->slots.push_back(slot);
  auto& all = gathered_->batch.transfers;
  all.insert(all.end(), slot->batch.transfers.begin(), slot->batch.transfers.end());
}

void BlockQueue::begin() {
  if (!gathered_) return;
  under_way_.push_back(std::move(gathered_));
  volume_.submit(under_way_.back()->batch);
}

// Where its blocks are mapped now.
Status BlockQueue::redo(Slot& slot) {
  TRY(volume_.plan(slot.direction, slot.address, slot.slices, slot.batch, slot.cut));
  volume_.submit(slot.batch);
  return volume_.wait(slot.batch);
}

void BlockQueue::end(Group& group) {
  const Status status = group.batch.status();
  const bool alone = group.slots.size() == 1;
  for (Slot* const slot : group.slots) {
    const brickfs_completion completion = slot->result(status.ok() || alone ? status : redo(*slot));
    slot->buffers.clear();
    done_.add(completion);
    give_back(slot);
  }
  group.slots.clear();
  if (!group.driven) group.batch.transfers.clear();
}

void BlockQueue::collect() {
  const auto still = std::stable_partition(under_way_.begin(), under_way_.end(),
                                           [](const auto& group) { return !group->batch.complete(); });
  for (auto group = still; group != under_way_.end(); ++group) {
    end(**group);
    if (!(*group)->driven) spare_.push_back(std::move(*group));
  }
  under_way_.erase(still, under_way_.end());
}

// What nobody waits for would stay in the transport (transport/tcp/data_channel.h).
void BlockQueue::drive() {
  if (under_way_.empty() || under_way_.front()->driven) return;
  const auto& oldest = under_way_.front();
  oldest->driven = driver_.run([this, oldest] { static_cast<void>(volume_.wait(oldest->batch)); });
}

int BlockQueue::poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) {
  if (background_) {
    if (least > 0) static_cast<void>(done_.wait(least, timeout_ms));
    return static_cast<int>(done_.take(out));
  }
  collect();
  size_t count = done_.take(out);
  if (least == 0) drive();
  while (count < least && !under_way_.empty()) {
    static_cast<void>(volume_.wait(under_way_.front()->batch));  // its status is asked when it is collected
    collect();
    count += done_.take(out.subspan(count));
  }
  return static_cast<int>(count);
}

}  // namespace

}  // namespace brickfs::library

int brickfs_volume_queue(brickfs_volume* volume, unsigned depth, unsigned flags, brickfs_queue** queue) {
  using namespace brickfs::library;
  return open_queue(volume != nullptr, depth, flags, queue,
                    [&](bool background) { return std::make_unique<BlockQueue>(*volume->blocks, depth, background); });
}
