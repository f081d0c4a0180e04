// SPDX-License-Identifier: Apache-2.0
// A request of blocks is a batch of its own. Without BRICKFS_QUEUE_BACKGROUND the polling thread waits for the oldest
// one, which drives the transport, and takes along what is complete by then.
#include <algorithm>

#include "fs/library/block_volume.h"
#include "fs/library/queue.h"
#include "transport/brick/limits.h"

namespace brickfs::library {
namespace {

class BlockQueue final : public brickfs_queue {
 public:
  BlockQueue(BlockVolume& volume, unsigned most, bool background);
  ~BlockQueue() override;
  Status start() { return done_.start(background_, depth); }

  void submit(const brickfs_request& request) override;
  int poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) override;
  int descriptor() const override { return background_ ? done_.descriptor() : -1; }

 private:
  struct Slot {
    explicit Slot(Batch::Done done) : batch(done, this) {}
    brickfs_completion result() const {
      return {user_data, batch.status().ok() ? static_cast<int64_t>(bytes) : -batch.status().code()};
    }

    BlockQueue* queue = nullptr;
    Slices slices;
    std::vector<LocalSlice> cut;
    uint64_t user_data = 0;
    uint64_t bytes = 0;
    Batch batch;
  };

  static void complete(Batch& batch, void* slot);
  Status plan(const brickfs_request& request, Slot& slot);
  void collect(std::span<brickfs_completion> out, size_t& count);

  BlockVolume& volume_;
  const bool background_;
  Completions done_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Mutex mutex_;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
  CondVar freed_;
  std::vector<Slot*> under_way_;  // oldest first; not of a background queue
};

BlockQueue::BlockQueue(BlockVolume& volume, unsigned most, bool background)
    : brickfs_queue(volume.children, most), volume_(volume), background_(background) {
  for (unsigned i = 0; i < most; ++i) {
    slots_.push_back(std::make_unique<Slot>(background ? &BlockQueue::complete : nullptr));
    slots_.back()->queue = this;
    free_.push_back(slots_.back().get());
  }
  under_way_.reserve(most);
}

BlockQueue::~BlockQueue() {
  for (Slot* const slot : under_way_) static_cast<void>(volume_.wait(slot->batch));
  if (!background_) return;
  MutexLock lock(mutex_);
  while (free_.size() < slots_.size()) freed_.wait(lock);
}

// The last that is done with the batch: its slot may be used again at once.
void BlockQueue::complete(Batch&, void* context) {
  Slot* const slot = static_cast<Slot*>(context);
  BlockQueue& queue = *slot->queue;
  const brickfs_completion completion = slot->result();
  MutexLock lock(queue.mutex_);
  queue.done_.add(completion);
  queue.free_.push_back(slot);
  queue.freed_.notify_one();
}

Status BlockQueue::plan(const brickfs_request& request, Slot& slot) {
  slot.slices.clear();
  if (request.operation != BRICKFS_READ && request.operation != BRICKFS_WRITE) return Error(EINVAL, "operation");
  if (request.file != nullptr || request.reserved[0] != 0 || request.reserved[1] != 0) return Error(EINVAL, "request");
  TRY(request.count > 0 ? add_slices(slot.slices, request.vectors, request.count, volume_.children)
                        : add_slices(slot.slices, request.data, request.length, request.buffer, volume_.children));
  slot.user_data = request.user_data;
  slot.bytes = bytes_of(slot.slices);
  const Direction direction = request.operation == BRICKFS_READ ? Direction::kRead : Direction::kWrite;
  return volume_.plan(direction, request.offset, slot.slices, slot.batch, slot.cut);
}

void BlockQueue::submit(const brickfs_request& request) {
  Slot* slot = nullptr;
  {
    MutexLock lock(mutex_);
    while (free_.empty()) freed_.wait(lock);  // a completion comes a moment before its slot
    slot = free_.back();
    free_.pop_back();
  }
  const Status planned = plan(request, *slot);
  if (!planned.ok()) {
    MutexLock lock(mutex_);
    done_.add({request.user_data, code_of(planned)});
    free_.push_back(slot);
    return;
  }
  if (!background_) under_way_.push_back(slot);
  volume_.submit(slot->batch);
}

void BlockQueue::collect(std::span<brickfs_completion> out, size_t& count) {
  const auto kept = std::remove_if(under_way_.begin(), under_way_.end(), [&](Slot* slot) {
    if (count == out.size() || !slot->batch.complete()) return false;
    out[count++] = slot->result();
    MutexLock lock(mutex_);
    free_.push_back(slot);
    return true;
  });
  under_way_.erase(kept, under_way_.end());
}

int BlockQueue::poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) {
  if (background_) {
    if (least > 0) done_.wait(least, timeout_ms);
    return static_cast<int>(done_.take(out));
  }
  size_t count = done_.take(out);  // refused ones
  collect(out, count);
  while (count < least && !under_way_.empty()) {
    static_cast<void>(volume_.wait(under_way_.front()->batch));  // its status is asked when it is collected
    collect(out, count);
  }
  return static_cast<int>(count);
}

}  // namespace

Result<brickfs_queue*> make_block_queue(brickfs_volume& volume, unsigned depth, bool background) {
  auto queue = std::make_unique<BlockQueue>(*volume.blocks, depth, background);
  TRY(queue->start());
  return queue.release();
}

}  // namespace brickfs::library

int brickfs_volume_queue(brickfs_volume* volume, unsigned depth, unsigned flags, brickfs_queue** queue) {
  using namespace brickfs::library;
  return guarded([&]() -> int {
    if (volume == nullptr || queue == nullptr) return -EFAULT;
    if (const brickfs::Status status = check_queue(depth, flags); !status.ok()) return code_of(status);
    const auto made = make_block_queue(*volume, depth, (flags & BRICKFS_QUEUE_BACKGROUND) != 0);
    if (!made.ok()) return code_of(made.error());
    *queue = *made;
    return 0;
  });
}
