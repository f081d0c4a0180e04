// SPDX-License-Identifier: Apache-2.0
// A brick whose client dies at its N-th change: that change is cut short (a write lands in part), and from then on
// every call is refused as if the lease had gone to another. Changes are alloc, free, commit and writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/brick/brick.h"

namespace brickfs {

class StoppingBrick final : public Brick {
 public:
  StoppingBrick(std::unique_ptr<Brick> brick, uint64_t changes, uint64_t seed)
      : brick_(std::move(brick)), changes_left_(changes), random_(seed) {}

  Result<Session> open(const OpenRequest& request, Holder* holder) override {
    if (stopped_) return gone();
    return brick_->open(request, holder);
  }
  Status close() override { return stopped_ ? Status(gone()) : brick_->close(); }
  void abandon() override { brick_->abandon(); }
  Result<calls::Answer> call(const calls::Request& request) override {
    const calls::Kind kind = calls::kind_of(request);
    const bool changes = kind == calls::Kind::kAlloc || kind == calls::Kind::kFree || kind == calls::Kind::kCommit;
    if (changes ? !may_change() : stopped_.load()) return gone();
    return brick_->call(request);
  }
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override {
    return brick_->register_memory(memory);
  }
  void submit(Batch& batch) override {
    bool writes = false;
    for (const Transfer& transfer : batch.transfers) writes |= transfer.direction == Direction::kWrite;
    const bool was_stopped = stopped_;
    if (writes ? may_change() : !was_stopped) return brick_->submit(batch);
    if (!was_stopped) write_in_part(batch);
    batch.begin(1);
    batch.finish_one(ESTALE);
  }
  Status wait(Batch& batch) override { return batch.complete() ? batch.status() : brick_->wait(batch); }
  void set_on_lost(std::function<void(Error)> callback) override { brick_->set_on_lost(std::move(callback)); }

  bool stopped() const { return stopped_; }

 private:
  static Error gone() { return Error(ESTALE, "the client is dead"); }

  bool may_change() {
    MutexLock lock(mutex_);
    if (stopped_) return false;
    if (changes_left_-- > 0) return true;
    stopped_ = true;
    return false;
  }

  // Some of the transfers, and of one of them a part.
  void write_in_part(const Batch& batch) {
    MutexLock lock(mutex_);
    for (const Transfer& transfer : batch.transfers) {
      if (transfer.direction != Direction::kWrite || random_() % 2 == 0) continue;
      std::vector<LocalSlice> local(transfer.local.begin(), transfer.local.end());
      local.back().length_bytes = 1 + random_() % local.back().length_bytes;
      Batch part;
      part.transfers.push_back({Direction::kWrite, transfer.handle, transfer.offset, local});
      brick_->submit(part);
      static_cast<void>(brick_->wait(part));
    }
  }

  const std::unique_ptr<Brick> brick_;
  std::atomic<bool> stopped_{false};
  Mutex mutex_;
  uint64_t changes_left_ ABSL_GUARDED_BY(mutex_);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
