// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/bench_stream.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/brickctl/interrupt.h"
#include "transport/base/bytes.h"

namespace brickfs {
namespace {

constexpr uint64_t kSlotAlignment = 4 * kKiB;
constexpr uint64_t kFillBytes = 1 * kMiB;

void count(LatencyHistogram& latencies, const BenchWindow& window, BenchClock::time_point posted,
           BenchClock::time_point complete) {
  if (complete < window.begin || complete > window.end) return;
  latencies.record(static_cast<uint64_t>(std::chrono::nanoseconds(complete - posted).count()));
}

}  // namespace

struct BenchStream::Slot {
  LocalSlice slice;
  Batch batch;
  BenchClock::time_point posted;
  bool under_way = false;
};

BenchStream::BenchStream(Brick& brick, std::vector<Handle> share, const BenchShape& shape)
    : brick_(brick), share_(std::move(share)), shape_(shape) {}

BenchStream::~BenchStream() {
  registration_ = RegisteredMemory();
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
}

Result<std::unique_ptr<BenchStream>> BenchStream::open(Brick& brick, std::vector<Handle> share,
                                                       const BenchShape& shape) {
  std::unique_ptr<BenchStream> stream(new BenchStream(brick, std::move(share), shape));
  TRY(stream->prepare());
  return stream;
}

Status BenchStream::prepare() {
  const uint64_t transfers = shape_.depth * round_up(shape_.transfer_bytes, kSlotAlignment);
  memory_bytes_ = round_up(std::max(transfers, kFillBytes), kBlockBytes);
  void* const memory = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error(ENOMEM, "memory for the transfers");
  memory_ = static_cast<std::byte*>(memory);
  ::madvise(memory_, memory_bytes_, MADV_HUGEPAGE);
  std::memset(memory_, static_cast<int>(shape_.fill), memory_bytes_);
  registration_ = TRY(brick_.register_memory({memory_, memory_bytes_}));
  slots_ = std::make_unique<Slot[]>(shape_.depth);
  for (size_t i = 0; i < shape_.depth; ++i) {
    Slot& slot = slots_[i];
    slot.slice = {memory_of(i), shape_.transfer_bytes, registration_.local_key()};
    slot.batch.transfers.resize(1);
    slot.batch.transfers[0].local = {&slot.slice, 1};
  }
  return {};
}

std::byte* BenchStream::memory_of(size_t slot) const {
  return memory_ + slot * round_up(shape_.transfer_bytes, kSlotAlignment);
}

Status BenchStream::fill() {
  const LocalSlice slice{memory_, static_cast<uint32_t>(kFillBytes), registration_.local_key()};
  for (const Handle& handle : share_) {
    const uint64_t bytes = handle.blocks.count * kBlockBytes;
    for (uint64_t offset = 0; offset < bytes; offset += kFillBytes) {
      if (interrupted()) return {};
      Batch batch;
      batch.transfers.push_back({Direction::kWrite, handle, offset, {&slice, 1}});
      brick_.submit(batch);
      TRY(brick_.wait(batch));
    }
  }
  return {};
}

void BenchStream::aim(Slot& slot) {
  const uint64_t bytes = share_[handle_].blocks.count * kBlockBytes;
  if (offset_ + shape_.transfer_bytes > std::min(bytes, shape_.span_bytes - before_)) {
    before_ += bytes;
    ++handle_;
    if (handle_ == share_.size() || before_ + shape_.transfer_bytes > shape_.span_bytes) handle_ = before_ = 0;
    offset_ = 0;
  }
  Transfer& transfer = slot.batch.transfers[0];
  transfer.handle = share_[handle_];
  transfer.offset = offset_;
  offset_ += shape_.transfer_bytes;
}

Status BenchStream::run(Direction direction, const BenchWindow& window, LatencyHistogram& latencies) {
  const bool reads = direction == Direction::kRead;
  std::memset(memory_, static_cast<int>(reads ? ~shape_.fill : shape_.fill), memory_bytes_);
  for (size_t i = 0; i < shape_.depth; ++i) slots_[i].batch.transfers[0].direction = direction;
  return shape_.depth == 1 ? run_one_by_one(window, latencies) : run_queue(window, latencies);
}

Status BenchStream::run_one_by_one(const BenchWindow& window, LatencyHistogram& latencies) {
  Slot& slot = slots_[0];
  auto posted = BenchClock::now();
  while (posted < window.end && !interrupted()) {
    aim(slot);
    brick_.submit(slot.batch);
    TRY(brick_.wait(slot.batch));
    const auto complete = BenchClock::now();
    count(latencies, window, posted, complete);
    posted = complete;  // the next one is, at once: the clock may cost as much as the rest of what happens here
  }
  return {};
}

void BenchStream::post(Slot& slot) {
  aim(slot);
  slot.under_way = true;
  slot.posted = BenchClock::now();
  brick_.submit(slot.batch);
}

// Waits for the oldest; whatever else is complete by then goes out again with it.
Status BenchStream::run_queue(const BenchWindow& window, LatencyHistogram& latencies) {
  Status status;
  size_t under_way = shape_.depth;
  for (size_t i = 0; i < shape_.depth; ++i) post(slots_[i]);
  for (size_t oldest = 0; under_way > 0; oldest = (oldest + 1) % shape_.depth) {
    if (!slots_[oldest].under_way) continue;
    static_cast<void>(brick_.wait(slots_[oldest].batch));  // its status is asked below
    for (size_t i = 0; i < shape_.depth; ++i) {
      Slot& slot = slots_[(oldest + i) % shape_.depth];
      if (!slot.under_way || !slot.batch.complete()) continue;
      const auto complete = BenchClock::now();
      slot.under_way = false;
      if (!slot.batch.status().ok()) {
        if (status.ok()) status = slot.batch.status();
      } else {
        count(latencies, window, slot.posted, complete);
      }
      if (status.ok() && complete < window.end && !interrupted()) {
        post(slot);
      } else {
        --under_way;
      }
    }
  }
  return status;
}

bool BenchStream::read_back() const {
  for (size_t i = 0; i < shape_.depth; ++i) {
    const std::byte* const bytes = memory_of(i);
    const auto is_other = [this](std::byte byte) { return byte != shape_.fill; };
    if (std::any_of(bytes, bytes + shape_.transfer_bytes, is_other)) return false;
  }
  return true;
}

}  // namespace brickfs
