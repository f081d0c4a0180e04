// SPDX-License-Identifier: Apache-2.0
// Requests of a ring, which the mount's process is at from the moment they are submitted.
#include <algorithm>
#include <chrono>
#include <optional>

#include "fs/library/queue.h"
#include "fs/library/ring.h"

namespace brickfs::library {
namespace {

using direct::Operation;
using direct::RingClient;

class RingQueue final : public brickfs_queue {
 public:
  RingQueue(brickfs_ring& ring, unsigned most) : brickfs_queue(ring.children, most), ring_(ring) {
    under_way_.reserve(most);
    done_.reserve(most);
  }
  ~RingQueue() override;
  Status start() { return {}; }

  void submit(const brickfs_request& request) override;
  int poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) override;
  int descriptor() const override { return -1; }

 private:
  struct UnderWay {
    uint32_t slot;
    uint64_t user_data;
  };

  Result<RingClient::Request> prepare(const brickfs_request& request);
  void collect();

  brickfs_ring& ring_;
  std::vector<UnderWay> under_way_;
  std::vector<brickfs_completion> done_;  // and not polled
};

RingQueue::~RingQueue() {
  for (collect(); !under_way_.empty(); collect()) ring_.client->wait(under_way_.front().slot, 0, std::nullopt);
}

Result<RingClient::Request> RingQueue::prepare(const brickfs_request& request) {
  if (request.file != nullptr || request.count != 0 || request.buffer != nullptr || request.reserved != 0)
    return Error(EINVAL, "request");
  if (request.operation < BRICKFS_READ || request.operation > BRICKFS_FSYNC) return Error(EINVAL, "operation");
  if (request.descriptor < 0 || request.descriptor > INT32_MAX) return Error(EBADF, "descriptor");
  static_assert(BRICKFS_READ == static_cast<int>(Operation::kRead) &&
                BRICKFS_WRITE == static_cast<int>(Operation::kWrite) &&
                BRICKFS_FSYNC == static_cast<int>(Operation::kFsync));
  return ring_.request_for(static_cast<Operation>(request.operation), static_cast<int>(request.descriptor),
                           request.data, request.length, request.offset);
}

// With all slots of the ring taken by others it is done at once, as by a call.
void RingQueue::submit(const brickfs_request& request) {
  const auto prepared = prepare(request);
  const auto slot = prepared.ok() ? ring_.client->start(*prepared) : prepared.error();
  if (slot.ok()) return under_way_.push_back({*slot, request.user_data});
  const bool is_full = prepared.ok() && slot.code() == EAGAIN;
  done_.push_back(
      {request.user_data, is_full ? count_of(ring_.client->run(*prepared)) : int64_t{code_of(slot.error())}});
}

void RingQueue::collect() {
  std::erase_if(under_way_, [this](const UnderWay& request) {
    const auto result = ring_.client->poll(request.slot);
    if (result) done_.push_back({request.user_data, count_of(*result)});
    return result.has_value();
  });
}

int RingQueue::poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) {
  std::optional<RingClient::Clock::time_point> deadline;
  if (timeout_ms >= 0) deadline = RingClient::Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (bool goes_on = true; goes_on;) {
    const uint32_t seen = ring_.client->answers();
    collect();
    goes_on = done_.size() < least && ring_.client->wait(RingClient::kAnySlot, seen, deadline);
  }
  const size_t count = std::min(out.size(), done_.size());
  std::copy_n(done_.begin(), count, out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count));
  return static_cast<int>(count);
}

}  // namespace
}  // namespace brickfs::library

int brickfs_ring_queue(brickfs_ring* ring, unsigned depth, unsigned flags, brickfs_queue** queue) {
  using namespace brickfs::library;
  if (depth > brickfs::direct::kSlots || flags != 0) return -EINVAL;
  return open_queue(ring != nullptr, depth, flags, queue,
                    [&](bool) { return std::make_unique<RingQueue>(*ring, depth); });
}
