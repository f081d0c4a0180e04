// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/device_source.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fs/fuse/protocol/operations.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr size_t kTogether = 16;                       // as many transfers go in one call
constexpr size_t kManyBytes = kFuseTransferBytes / 2;  // the kernel is about to send the other half of them

FuseOperation::Takes time_of(const FuseRequest& request) {
  if (request.transfer() != nullptr && request.transfer()->bytes >= kManyBytes) return kMuch;
  if (request.header().opcode == FUSE_INTERRUPT) return kLittle;
  const FuseOperation* const operation = find_operation(request.header().opcode);
  return operation != nullptr ? operation->takes : FuseOperation::Takes::kSome;
}

}  // namespace

ssize_t FuseDeviceRequest::receive() {
  const std::span<std::byte> room = buffers().request();
  const ssize_t received = ::read(device_, room.data(), room.size());
  if (received >= 0) begin(room.first(static_cast<size_t>(received)));
  return received;
}

ssize_t FuseDeviceRequest::send(std::span<const iovec> parts) {
  return ::writev(device_, parts.data(), static_cast<int>(parts.size()));
}

FuseRequest::Answer FuseDeviceRequest::put_aside() {
  return [device = device_, unique = header().unique](int error, std::span<const std::byte> payload) {
    fuse_out_header out = answer_header(unique, error, payload.size());
    const iovec parts[] = {{&out, sizeof(out)}, {const_cast<std::byte*>(payload.data()), payload.size()}};
    (void)!::writev(device, parts, payload.empty() ? 1 : 2);
  };
}

FuseDeviceSource::FuseDeviceSource(VolumeSet& volume, KernelCache& cache, OperationCounters& counters,
                                   FuseDeviceQueue& queue, FuseInterrupts& interrupts, int device,
                                   std::unique_ptr<FuseBuffers> buffers, bool looks)
    : volume_(volume),
      cache_(cache),
      counters_(counters),
      queue_(queue),
      interrupts_(interrupts),
      device_(device),
      looks_(looks),
      own_(std::move(buffers), cache, counters, device),
      member_(queue) {
  interrupts_.watch(own_);
}

Status FuseDeviceSource::receive(std::vector<FuseRequest*>& requests) {
  const FuseDeviceQueue::Turn turn = TRY(queue_.wait_for_turn(member_));
  if (turn.passed != nullptr) {
    requests.push_back(turn.passed);
    return {};
  }
  TRY(receive_one(looks_ && turn.kept));
  queue_.begin_turn(member_);
  if (own_.is_small() && queue_.has_more() && collect(requests)) return {};
  own_.serve_alone();
  requests.push_back(&own_);
  return {};
}

// The device does not wait. To look for the next request pays where requests come one after the other.
// ENOENT: the request was interrupted while it was handed over.
Status FuseDeviceSource::receive_one(bool looks) {
  wait_.begin();
  if (looks) (void)wait_.look([this] { return queue_.has_more() || queue_.is_stopping(); });
  while (own_.receive() < 0) {
    if (errno == ENODEV) return Error(ENODEV, "/dev/fuse");
    if (queue_.is_stopping() || (errno != EAGAIN && errno != EINTR && errno != ENOENT)) {
      if (!queue_.is_stopping()) log::error("cannot read from /dev/fuse: {}", strerror(errno));
      return Error(queue_.is_stopping() ? EINTR : ENODEV, "/dev/fuse");
    }
    if (errno == EAGAIN) queue_.wait_for_more();
  }
  wait_.end();
  return {};
}

// Small ones up to the first that is not, which is served behind them. As many as go together are at hand: another
// worker takes what waits beside them. False: there is no memory for small ones.
bool FuseDeviceSource::collect(std::vector<FuseRequest*>& requests) {
  do {
    FuseDeviceRequest* const small = own_.is_small() ? free_small() : nullptr;
    if (small == nullptr) {
      if (requests.empty()) return false;
      own_.serve_alone();
      requests.push_back(&own_);
      return true;
    }
    small->take_over(own_);
    requests.push_back(small);
    if (requests.size() == kTogether) {
      queue_.hand_over(member_);
      return true;
    }
  } while (own_.receive() >= 0);
  return true;
}

FuseDeviceRequest* FuseDeviceSource::free_small() {
  for (const auto& small : small_) {
    if (small->is_free()) return small.get();
  }
  if (small_.size() == kTogether) return nullptr;
  auto buffers = FuseBuffers::make_small(volume_);
  if (!buffers.ok()) return nullptr;
  small_.push_back(std::make_unique<FuseDeviceRequest>(std::move(*buffers), cache_, counters_, device_));
  interrupts_.watch(*small_.back());
  return small_.back().get();
}

bool FuseDeviceSource::pass(FuseRequest& request) {
  if (&request == &own_) return false;
  request.serve_alone();
  return queue_.pass(request);
}

// What comes beside a small one is received together behind it: so it waits for that one's transfer at most.
void FuseDeviceSource::begin_alone(const FuseRequest& request) {
  if (!queue_.is_receiver(member_)) return;
  const bool is_first_small = &request == &own_ && own_.is_small_transfer();
  const FuseOperation::Takes time = time_of(request);
  if (time == kMuch || (time != kLittle && !is_first_small && queue_.has_more())) {
    queue_.hand_over(member_);
  }
}

Status FuseDeviceSource::give_back(FuseRequest& request) {
  static_cast<FuseDeviceRequest&>(request).set_free();
  return {};
}

}  // namespace brickfs
