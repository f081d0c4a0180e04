// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/uring_request.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/base/check.h"

namespace brickfs {

Result<std::unique_ptr<FuseUringRequest>> FuseUringRequest::make(VolumeAccess& volume, KernelCache& cache,
                                                                 OperationCounters& counters, size_t queue,
                                                                 FuseUringQueue& workers) {
  return std::unique_ptr<FuseUringRequest>(
      new FuseUringRequest(TRY(FuseBuffers::make_shared(volume)), cache, counters, queue, workers));
}

// The kernel waits for an answer, if it has given it a request.
void FuseUringRequest::put_command(io_uring_sqe& sqe) {
  if (!is_answered()) answer(Error(EIO));
  FuseUringCommand command{};
  command.queue = queue_;
  command.commit_id = header_.commit_id;
  sqe.cmd_op = static_cast<uint32_t>(is_new_ ? FuseUringVerb::kRegister : FuseUringVerb::kCommitAndFetch);
  if (std::exchange(is_new_, false)) {
    const std::span<std::byte> payload = buffers().reply();
    parts_[0] = {&header_, sizeof(header_)};
    parts_[1] = {payload.data(), payload.size()};
    sqe.addr = reinterpret_cast<uint64_t>(parts_);
    sqe.len = 2;
  }
  std::memcpy(reinterpret_cast<std::byte*>(&sqe) + offsetof(io_uring_sqe, cmd), &command, sizeof(command));
}

// The kernel gives what it would write to /dev/fuse in three parts. The first two go right before the third.
Status FuseUringRequest::take_request() {
  fuse_in_header in{};
  std::memcpy(&in, header_.in_out, sizeof(in));
  const std::span<std::byte> payload = buffers().reply();
  const size_t before = in.len - std::min<size_t>(in.len, header_.payload_bytes);
  if (before < sizeof(in) || before > sizeof(in) + sizeof(header_.operation) ||
      header_.payload_bytes > payload.size()) {
    return Error(EPROTO, "FUSE over io_uring");
  }
  std::byte* const start = payload.data() - before;
  std::memcpy(start, &in, sizeof(in));
  std::memcpy(start + sizeof(in), header_.operation, before - sizeof(in));
  begin(std::span(start, in.len));
  return {};
}

ssize_t FuseUringRequest::send(std::span<const iovec> parts) {
  CHECK(!parts.empty() && parts[0].iov_len == sizeof(fuse_out_header));
  const std::span<std::byte> payload = buffers().reply();
  size_t bytes = 0;
  for (const iovec& part : parts.subspan(1)) {
    CHECK(part.iov_len <= payload.size() - bytes);
    if (part.iov_base != payload.data() + bytes) std::memmove(payload.data() + bytes, part.iov_base, part.iov_len);
    bytes += part.iov_len;
  }
  std::memcpy(header_.in_out, parts[0].iov_base, sizeof(fuse_out_header));
  header_.payload_bytes = static_cast<uint32_t>(bytes);
  return static_cast<ssize_t>(sizeof(fuse_out_header) + bytes);
}

// When the queue has stopped, the connection has ended: nobody waits for the answer.
FuseRequest::Answer FuseUringRequest::put_aside() {
  hold();
  return [this](int error, std::span<const std::byte> payload) {
    (void)send_answer(error, payload);
    if (!release()) return;
    hold();
    (void)workers_.leave(*this);
  };
}

bool FuseUringQueue::collect_or_pass(FuseUringRequest& entry) {
  MutexLock lock(mutex_);
  if (collecting_) {
    passed_.push_back(&entry);
    return false;
  }
  collecting_ = true;
  return true;
}

bool FuseUringQueue::take_passed(std::vector<FuseUringRequest*>& requests) {
  MutexLock lock(mutex_);
  collecting_ = !passed_.empty();
  requests.insert(requests.end(), passed_.begin(), passed_.end());
  passed_.clear();
  return collecting_;
}

void FuseUringQueue::resign() {
  MutexLock lock(mutex_);
  collecting_ = false;
  for (FuseUringRequest* const entry : passed_) {
    left_.push_back(entry);
    left_something_.notify_one();
  }
  passed_.clear();
}

bool FuseUringQueue::leave(FuseUringRequest& entry) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  left_.push_back(&entry);
  left_something_.notify_one();
  return true;
}

FuseUringRequest* FuseUringQueue::wait() {
  MutexLock lock(mutex_);
  while (left_.empty() && !stopping_) left_something_.wait(lock);
  if (left_.empty()) return nullptr;
  FuseUringRequest* const entry = left_.front();
  left_.pop_front();
  return entry;
}

void FuseUringQueue::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  left_something_.notify_all();
}

}  // namespace brickfs
