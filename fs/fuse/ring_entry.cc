// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/ring_entry.h"

#include <fmt/format.h>
#include <linux/fuse.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "transport/base/check.h"

namespace brickfs {
namespace {

thread_local FuseRingEntry* current_entry = nullptr;

constexpr const char* kSwitch = "/sys/module/fuse/parameters/enable_uring";
constexpr unsigned kRingSize = 2;  // one command at a time

// "0-3" or "0": the numbers that CPUs may have.
size_t highest_cpu() {
  std::ifstream possible("/sys/devices/system/cpu/possible");
  std::string list;
  possible >> list;
  const size_t last = list.find_last_of("-,");
  return std::strtoul(list.c_str() + (last == std::string::npos ? 0 : last + 1), nullptr, 10);
}

}  // namespace

std::optional<std::string> FuseRingEntry::obstacle(bool switch_on) {
  std::ifstream setting(kSwitch);
  char value = 0;
  if (!(setting >> value)) return "this kernel's FUSE has no io_uring (Linux 6.14 has)";
  if (value != 'Y' && switch_on && (std::ofstream(kSwitch) << 'Y' << std::flush)) return std::nullopt;
  if (value != 'Y') return fmt::format("FUSE over io_uring is switched off here; as root: echo Y > {}", kSwitch);
  return std::nullopt;
}

size_t FuseRingEntry::queues() { return highest_cpu() + 1; }

Result<std::unique_ptr<FuseRingEntry>> FuseRingEntry::make(VolumeClient& volume, int device, size_t queue) {
  std::unique_ptr<FuseRingEntry> entry(new FuseRingEntry(device, queue));
  entry->buffers_ = TRY(FuseBuffers::make_shared(volume));
  TRY(entry->begin());
  return entry;
}

FuseRingEntry::~FuseRingEntry() {
  if (has_ring_) io_uring_queue_exit(&ring_);
}

FuseRingEntry* FuseRingEntry::current() { return current_entry; }

void FuseRingEntry::set_current(FuseRingEntry* entry) { current_entry = entry; }

// Made by one thread, used by another: the ring starts when that one enables it.
Status FuseRingEntry::begin() {
  io_uring_params params{};
  params.flags = IORING_SETUP_SQE128 | IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  const int failed = io_uring_queue_init_params(kRingSize, &ring_, &params);
  if (failed < 0) return Error(-failed, "io_uring");
  has_ring_ = true;
  return {};
}

// liburing 2.3 declares io_uring_enable_rings(), but does not export it.
Status FuseRingEntry::enable() {
  if (syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) != 0) return errno_error("io_uring");
  return {};
}

void FuseRingEntry::post(FuseRingVerb verb) {
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  CHECK(sqe != nullptr);
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, device_, nullptr, 0, 0);
  sqe->cmd_op = static_cast<uint32_t>(verb);
  FuseRingCommand command{};
  command.queue = queue_;
  command.commit_id = header_.commit_id;
  if (verb == FuseRingVerb::kRegister) {
    const std::span<std::byte> payload = buffers_->reply();
    parts_[0] = {&header_, sizeof(header_)};
    parts_[1] = {payload.data(), payload.size()};
    sqe->addr = reinterpret_cast<uint64_t>(parts_);
    sqe->len = 2;
  }
  std::memcpy(reinterpret_cast<std::byte*>(sqe) + offsetof(io_uring_sqe, cmd), &command, sizeof(command));
}

Result<std::span<std::byte>> FuseRingEntry::receive() {
  if (state_ == State::kMade) {
    TRY(enable());
    post(FuseRingVerb::kRegister);
  } else if (state_ != State::kWaiting) {
    if (state_ == State::kServing) refuse();
    post(FuseRingVerb::kCommitAndFetch);
  }
  state_ = State::kWaiting;
  const int submitted = io_uring_submit_and_wait(&ring_, 1);
  if (submitted < 0) return Error(-submitted, "io_uring");
  io_uring_cqe* completed = nullptr;
  if (io_uring_peek_cqe(&ring_, &completed) != 0) return Error(EINTR, "io_uring");
  const int result = completed->res;
  io_uring_cqe_seen(&ring_, completed);
  if (result < 0) return Error(-result, "FUSE over io_uring");
  state_ = State::kServing;
  had_request_ = true;
  return message();
}

// The kernel gives what it would write to /dev/fuse in three parts. The first two go right before the third.
Result<std::span<std::byte>> FuseRingEntry::message() {
  fuse_in_header in{};
  std::memcpy(&in, header_.in_out, sizeof(in));
  const std::span<std::byte> payload = buffers_->reply();
  const size_t before = in.len - std::min<size_t>(in.len, header_.payload_bytes);
  if (before < sizeof(in) || before > sizeof(in) + sizeof(header_.operation) || header_.payload_bytes > payload.size()) {
    return Error(EPROTO, "FUSE over io_uring");
  }
  std::byte* const start = payload.data() - before;
  std::memcpy(start, &in, sizeof(in));
  std::memcpy(start + sizeof(in), header_.operation, before - sizeof(in));
  return std::span(start, in.len);
}

bool FuseRingEntry::serves(uint64_t unique) const {
  fuse_in_header in{};
  std::memcpy(&in, header_.in_out, sizeof(in));
  return state_ == State::kServing && in.unique == unique;
}

void FuseRingEntry::reply(std::span<const iovec> parts) {
  CHECK(!parts.empty() && parts[0].iov_len == sizeof(fuse_out_header));
  const std::span<std::byte> payload = buffers_->reply();
  size_t bytes = 0;
  for (const iovec& part : parts.subspan(1)) {
    CHECK(part.iov_len <= payload.size() - bytes);
    if (part.iov_base != payload.data() + bytes) std::memmove(payload.data() + bytes, part.iov_base, part.iov_len);
    bytes += part.iov_len;
  }
  std::memcpy(header_.in_out, parts[0].iov_base, sizeof(fuse_out_header));
  header_.payload_bytes = static_cast<uint32_t>(bytes);
  state_ = State::kAnswered;
}

// Nobody answered.
void FuseRingEntry::refuse() {
  fuse_in_header in{};
  std::memcpy(&in, header_.in_out, sizeof(in));
  fuse_out_header out{.len = sizeof(out), .error = -EIO, .unique = in.unique};
  const iovec part{&out, sizeof(out)};
  reply({&part, 1});
}

}  // namespace brickfs
