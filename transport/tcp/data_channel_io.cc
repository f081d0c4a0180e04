// SPDX-License-Identifier: Apache-2.0
// The channel's socket: requests out, answers in, payload straight from and to the caller's slices.
#include <algorithm>
#include <array>
#include <cstring>

#include "transport/brick/limits.h"
#include "transport/brick/wire.h"
#include "transport/tcp/data_channel.h"

namespace brickfs::tcp {
namespace {

constexpr size_t kTransfersPerCall = DataChannel::kTransfersPerCall;
constexpr size_t kPartsPerCall = kTransfersPerCall * (1 + limits::kSlicesPerTransfer);
static_assert(kPartsPerCall <= 1024, "IOV_MAX");

// Requests laid out for one sendmsg().
struct Group {
  std::array<wire::TransferHeader, kTransfersPerCall> headers;
  std::array<size_t, kTransfersPerCall> ends;  // bytes of the group up to and with this request
  std::array<iovec, kPartsPerCall> parts;
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
    const size_t count = std::min(transfers.size(), kTransfersPerCall);
    TRY(send_group(first_id, transfers.first(count)));
    if (count < transfers.size()) {
      MutexLock lock(mutex_);
      note_sent(first_id + count - 1);
    }
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
    const size_t sent = TRY(stream_.send_some(left.parts()));
    sent_bytes += sent;
    left.advance(sent);
    const size_t before = sent_requests;
    while (sent_requests < transfers.size() && group.ends[sent_requests] <= sent_bytes) ++sent_requests;
    if (left.done()) break;  // who submits notes that
    if (sent_requests > before) {
      MutexLock lock(mutex_);
      note_sent(first_id + sent_requests - 1);
    }
    TRY(wait_for_room());
  }
  return {};
}

Status DataChannel::wait_for_room() {
  {
    MutexLock lock(mutex_);
    sender_blocked_ = true;
    if (background_wanted()) background_.notify_one();
  }
  const Status status = stream_.wait_writable(Clock::now() + limits::kProgressTimeout);
  MutexLock lock(mutex_);
  sender_blocked_ = false;
  return status;
}

Result<size_t> DataChannel::receive_some(std::span<const iovec> parts) {
  if (early_bytes_.empty())
    return receiver_.receive_some(stream_, parts, outstanding_.load(std::memory_order_relaxed) == 1);
  const iovec& first = parts.front();
  const size_t count = std::min(first.iov_len, early_bytes_.size());
  std::memcpy(first.iov_base, early_bytes_.data(), count);
  early_bytes_.erase(early_bytes_.begin(), early_bytes_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

// Answers to some entries, the first ones outstanding, as they come. All headers and payloads are asked for at once, so
// that what came together costs one system call; when the brick refuses a read, no payload follows, and what landed in
// its slices, and behind, belongs to the next answers.
class DataChannel::Answers {
 public:
  Answers(DataChannel& channel, std::span<const Entry> entries) : channel_(channel), entries_(entries) {
    size_t bytes = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      begins_[i] = bytes;
      bytes += answer_bytes(entries[i]);
      add_part(&headers_[i], sizeof(headers_[i]));
      if (entries[i].direction == Direction::kWrite) continue;
      for (const LocalSlice& slice : entries[i].transfer->local) add_part(slice.data, slice.length_bytes);
    }
    std::copy_n(parts_.begin(), parts_count_, to_fill_.begin());
    left_ = IoCursor{std::span(to_fill_).first(parts_count_)};
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // Some of the i-th has come already.
  bool has_begun(size_t i) const { return got_ > begins_[i]; }
  // All of the i-th, after those before it: its status.
  Result<int> receive(size_t i) {
    const Entry& entry = entries_[i];
    const wire::TransferAnswer& answer = headers_[i];
    const size_t payload = begins_[i] + sizeof(answer);
    TRY(receive_up_to(payload));
    const bool has_payload = entry.direction == Direction::kRead && answer.status == 0;
    if (answer.id != entry.id || answer.status > wire::kHighestErrno ||
        answer.length_bytes != (has_payload ? entry.length_bytes : 0)) {
      return Error(EPROTO, "answer to another transfer");
    }
    if (has_payload) {
      TRY(receive_up_to(payload + entry.length_bytes));
    } else if (entry.direction == Direction::kRead) {
      put_back(payload);
    }
    // An answer cannot honestly come before its request; a dishonest one must not free memory that is still being sent.
    TRY(channel_.wait_until_sent(entry.id));
    if (answer.status == ESTALE) return Error(ENOTCONN, "the session has ended");
    return static_cast<int>(answer.status);
  }

 private:
  void add_part(void* data, size_t length) {
    if (length > 0) parts_[parts_count_++] = {data, length};
  }
  Status receive_up_to(size_t end) {
    while (got_ < end) {
      const auto received = channel_.receive_some(left_.parts());
      if (received.code() == EAGAIN && channel_.sending()) continue;  // whoever sends minds his own progress
      if (received.code() == EAGAIN) return Error(ETIMEDOUT, "the brick does not answer");
      if (!received.ok()) return received.error();
      got_ += *received;
      left_.advance(*received);
    }
    return {};
  }
  void put_back(size_t begin) {
    auto early = gather(std::span(parts_).first(parts_count_), begin, got_);
    early.insert(early.end(), channel_.early_bytes_.begin(), channel_.early_bytes_.end());
    channel_.early_bytes_ = std::move(early);
    got_ = begin;
  }

  DataChannel& channel_;
  const std::span<const Entry> entries_;
  std::array<wire::TransferAnswer, kTransfersPerCall> headers_;
  std::array<size_t, kTransfersPerCall> begins_;
  std::array<iovec, kPartsPerCall> parts_;
  std::array<iovec, kPartsPerCall> to_fill_;
  size_t parts_count_ = 0;
  IoCursor left_{{}};
  size_t got_ = 0;
};

// At least the first; then those of which something has come with it.
size_t DataChannel::read(std::span<const Entry> entries, Status& status) {
  Answers answers(*this, entries);
  size_t done = 0;
  do {
    const auto code = answers.receive(done);
    if (!code.ok()) {
      status = code.error();
      break;
    }
    // The entry stays pending until it is finished, so that whoever waits for it waits for that too.
    entries[done++].batch->finish_one(*code);
  } while (done < entries.size() && answers.has_begun(done));
  return done;
}

}  // namespace brickfs::tcp
