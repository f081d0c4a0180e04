// SPDX-License-Identifier: Apache-2.0
// The channel's socket: requests out, answers in, payload straight from and to the caller's slices.
#include <algorithm>
#include <array>
#include <cstring>

#include "transport/limits.h"
#include "transport/tcp/data_channel.h"
#include "transport/wire.h"

namespace brickfs::tcp {
namespace {

constexpr size_t kTransfersPerSend = 16;
constexpr size_t kPartsPerSend = kTransfersPerSend * (1 + limits::kSlicesPerTransfer);
static_assert(kPartsPerSend <= 1024, "IOV_MAX");
constexpr uint32_t kHighestErrno = 4095;

// Requests laid out for one sendmsg().
struct Group {
  std::array<wire::TransferHeader, kTransfersPerSend> headers;
  std::array<size_t, kTransfersPerSend> ends;  // bytes of the group up to and with this request
  std::array<iovec, kPartsPerSend> parts;
  size_t parts_count = 0;
  size_t bytes = 0;

  void add_part(const void* data, size_t length) {
    if (length == 0) return;
    parts[parts_count++] = {const_cast<void*>(data), length};
    bytes += length;
  }
};

void add_request(Group& group, size_t index, uint64_t id, const Transfer& transfer) {
  const bool write = transfer.direction == Direction::kWrite;
  wire::TransferHeader& header = group.headers[index];
  header = {};
  header.kind = write ? wire::kWriteTransfer : wire::kReadTransfer;
  header.remote_key = transfer.handle.remote_key;
  header.remote_address = transfer.handle.remote_address + transfer.offset;
  header.id = id;
  group.add_part(&header, sizeof(header));
  for (const LocalSlice& slice : transfer.local) {
    header.length_bytes += slice.length_bytes;
    if (write) group.add_part(slice.data, slice.length_bytes);
  }
  group.ends[index] = group.bytes;
}

// Takes the bytes from `skip` on out of the parts.
std::vector<std::byte> gather(std::span<const iovec> parts, size_t skip, size_t end) {
  std::vector<std::byte> bytes;
  size_t at = 0;
  for (const iovec& part : parts) {
    const auto* data = static_cast<const std::byte*>(part.iov_base);
    const size_t from = std::min(part.iov_len, skip > at ? skip - at : 0);
    const size_t to = std::min(part.iov_len, end > at ? end - at : 0);
    if (from < to) bytes.insert(bytes.end(), data + from, data + to);
    at += part.iov_len;
  }
  return bytes;
}

}  // namespace

Status DataChannel::send_requests(uint64_t first_id, std::span<const Transfer* const> transfers) {
  while (!transfers.empty()) {
    const size_t count = std::min(transfers.size(), kTransfersPerSend);
    TRY(send_group(first_id, transfers.first(count)));
    first_id += count;
    transfers = transfers.subspan(count);
  }
  return {};
}

Status DataChannel::send_group(uint64_t first_id, std::span<const Transfer* const> transfers) {
  Group group;
  for (size_t i = 0; i < transfers.size(); ++i) add_request(group, i, first_id + i, *transfers[i]);
  IoCursor left{std::span<iovec>(group.parts).first(group.parts_count)};
  size_t sent_bytes = 0;
  size_t sent_requests = 0;
  while (!left.done()) {
    const size_t sent = TRY(send_some(fd_.get(), left.parts()));
    sent_bytes += sent;
    left.advance(sent);
    const size_t before = sent_requests;
    while (sent_requests < transfers.size() && group.ends[sent_requests] <= sent_bytes) ++sent_requests;
    if (sent_requests > before) note_sent(first_id + sent_requests - 1);
    if (!left.done()) TRY(wait_for_room());
  }
  return {};
}

Status DataChannel::wait_for_room() {
  {
    MutexLock lock(mutex_);
    sender_blocked_ = true;
    if (background_wanted()) background_.notify_one();
  }
  const Status status = wait_writable(fd_.get(), Clock::now() + limits::kProgressTimeout);
  MutexLock lock(mutex_);
  sender_blocked_ = false;
  return status;
}

Result<size_t> DataChannel::receive_some(std::span<const iovec> parts) {
  if (early_bytes_.empty()) return receiver_.receive_some(fd_.get(), parts, alone());
  const iovec& first = parts.front();
  const size_t count = std::min(first.iov_len, early_bytes_.size());
  std::memcpy(first.iov_base, early_bytes_.data(), count);
  early_bytes_.erase(early_bytes_.begin(), early_bytes_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

// The answer's status. Header and payload are asked for at once, so that a small read costs one system call; when the
// brick refuses a read, no payload follows, and what landed in its slices belongs to the next answers.
Result<int> DataChannel::receive_answer(const Entry& entry) {
  wire::TransferAnswer answer;
  std::array<iovec, 1 + limits::kSlicesPerTransfer> parts;
  size_t count = 0;
  parts[count++] = {&answer, sizeof(answer)};
  if (entry.direction == Direction::kRead) {
    for (const LocalSlice& slice : entry.transfer->local) {
      if (slice.length_bytes > 0) parts[count++] = {slice.data, slice.length_bytes};
    }
  }
  auto to_fill = parts;
  IoCursor left{std::span<iovec>(to_fill).first(count)};
  size_t got = 0;
  const auto receive = [&]() -> Status {
    const auto received = receive_some(left.parts());
    if (received.code() == EAGAIN && sending()) return {};  // whoever sends minds his own progress
    if (received.code() == EAGAIN) return Error(ETIMEDOUT, "the brick does not answer");
    if (!received.ok()) return received.error();
    got += *received;
    left.advance(*received);
    return {};
  };
  while (got < sizeof(answer)) TRY(receive());
  const bool payload = entry.direction == Direction::kRead && answer.status == 0;
  if (answer.id != entry.id || answer.status > kHighestErrno ||
      answer.length_bytes != (payload ? entry.length_bytes : 0)) {
    return Error(EPROTO, "answer to another transfer");
  }
  if (payload) {
    while (!left.done()) TRY(receive());
  } else if (got > sizeof(answer)) {
    auto early = gather(std::span(parts).first(count), sizeof(answer), got);
    early.insert(early.end(), early_bytes_.begin(), early_bytes_.end());
    early_bytes_ = std::move(early);
  }
  // An answer cannot honestly come before its request; a dishonest one must not free memory that is still being sent.
  TRY(wait_until_sent(entry.id));
  return static_cast<int>(answer.status);
}

}  // namespace brickfs::tcp
