// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/ring_entry.h"

#include <linux/fuse.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fs/fuse/ring_queue.h"
#include "transport/base/check.h"

namespace brickfs {

Result<std::unique_ptr<FuseRingEntry>> FuseRingEntry::make(VolumeClient& volume, size_t queue, FuseRingQueue& threads) {
  return std::unique_ptr<FuseRingEntry>(new FuseRingEntry(TRY(FuseBuffers::make_shared(volume)), queue, threads));
}

void FuseRingEntry::put_command(io_uring_sqe& sqe) {
  FuseRingCommand command{};
  command.queue = queue_;
  command.commit_id = header_.commit_id;
  const bool is_new = state_ == State::kMade;
  sqe.cmd_op = static_cast<uint32_t>(is_new ? FuseRingVerb::kRegister : FuseRingVerb::kCommitAndFetch);
  if (is_new) {
    const std::span<std::byte> payload = buffers().reply();
    parts_[0] = {&header_, sizeof(header_)};
    parts_[1] = {payload.data(), payload.size()};
    sqe.addr = reinterpret_cast<uint64_t>(parts_);
    sqe.len = 2;
  }
  if (state_ == State::kServing) refuse();
  std::memcpy(reinterpret_cast<std::byte*>(&sqe) + offsetof(io_uring_sqe, cmd), &command, sizeof(command));
  state_ = State::kWaiting;
}

// The kernel gives what it would write to /dev/fuse in three parts. The first two go right before the third.
Status FuseRingEntry::take_request() {
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
  set_message(std::span(start, in.len));
  state_ = State::kServing;
  return {};
}

ssize_t FuseRingEntry::send(std::span<const iovec> parts) {
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
  state_ = State::kAnswered;
  waiter().end();
  return static_cast<ssize_t>(sizeof(fuse_out_header) + bytes);
}

// When the queue has stopped, the connection has ended: nobody waits for the answer.
std::function<void(const FusePlace::Answer&)> FuseRingEntry::put_aside() {
  waiter().end();
  set_current(nullptr);
  return [this](const Answer& answer) {
    answer_here(answer);
    (void)threads_.leave(*this);
  };
}

// Nobody answered.
void FuseRingEntry::refuse() {
  fuse_out_header out{.len = sizeof(out), .error = -EIO, .unique = unique()};
  const iovec part{&out, sizeof(out)};
  (void)send({&part, 1});
}

}  // namespace brickfs
