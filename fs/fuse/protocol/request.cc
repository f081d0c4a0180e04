// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/request.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>

#include "fs/fuse/cache/kernel_cache.h"
#include "fs/fuse/interrupt/thread_status.h"
#include "fs/fuse/protocol/io_error_log.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr unsigned kCapSysAdmin = 21;  // linux/capability.h
constexpr int kLargestError = 511;     // the kernel takes no answer with a larger one: then nobody would get any

// Asked only when a decision hangs on it, so the request's message need not carry the groups. The process waits for the
// answer meanwhile.
bool process_in_group(uint32_t pid, uint32_t gid) {
  const std::string status = thread_status(pid);
  if (status_id(status, "Gid") == gid) return true;
  std::istringstream groups(std::string(status_field(status, "Groups")));
  for (uint32_t group = 0; groups >> group;) {
    if (group == gid) return true;
  }
  return false;
}

Groups groups_of_process(uint32_t pid) {
  Groups groups;
  const std::string status = thread_status(pid);
  std::istringstream listed(std::string(status_field(status, "Groups")));
  for (uint32_t group = 0; listed >> group;) groups.some.push_back(group);
  if (const auto gid = status_id(status, "Gid")) groups.some.push_back(*gid);
  return groups;
}

bool process_has_capability(uint32_t pid, unsigned capability) {
  return (status_bits(thread_status(pid), "CapEff") >> capability & 1) != 0 && shares_user_namespace(pid);
}

}  // namespace

Touch touch_of(uint32_t open_flags) { return (open_flags & O_NOATIME) != 0 ? Touch::kNothing : Touch::kAtime; }

fuse_out_header answer_header(uint64_t unique, int error, size_t payload_bytes) {
  CHECK(error >= 0 && error <= kLargestError);
  return {.len = static_cast<uint32_t>(sizeof(fuse_out_header) + payload_bytes), .error = -error, .unique = unique};
}

Caller FuseRequest::caller(uint32_t umask) const {
  const uint32_t uid = header_.uid, gid = header_.gid,
                 pid = header_.pid;  // who makes an inode: as that is to have them
  Caller caller{.uid = uid, .gid = gid, .umask = umask, .in_group = {}, .is_administrator = {}};
  caller.in_group = [uid, gid, pid](uint32_t group) {
    return user_of(uid, pid) == 0U || gid == group || process_in_group(pid, group);
  };
  caller.groups = [uid, pid] { return user_of(uid, pid) == 0U ? Groups{.all = true} : groups_of_process(pid); };
  caller.is_administrator = [pid] { return process_has_capability(pid, kCapSysAdmin); };
  return caller;
}

void FuseRequest::begin(std::span<std::byte> message) {
  begun_ = std::chrono::steady_clock::now();
  message_ = message;
  header_ = {};
  if (message.size() >= sizeof(header_)) std::memcpy(&header_, message.data(), sizeof(header_));
  whole_ = message.size() >= sizeof(header_) && header_.len == message.size();
  stamped_count_ = 0;
  clears_mode_ = kNoIno;
  answered_ = alone_ = aside_ = false;
  holders_ = 1;
  parse_transfer();
  waiter_.begin(header_.unique, header_.pid);
}

void FuseRequest::take_over(FuseRequest& from, std::span<std::byte> room) {
  CHECK(from.message_.size() <= room.size());
  std::memcpy(room.data(), from.message_.data(), from.message_.size());
  from.answered_ = true;
  from.waiter_.end();
  begin(room.first(from.message_.size()));
  begun_ = from.begun_;
}

// Only what a program does by itself, without the page cache, says whose locks it minds.
void FuseRequest::parse_transfer() {
  transfer_.reset();
  if (!whole_) return;
  if (header_.opcode == FUSE_READ) {
    const auto* const in = arguments<fuse_read_in>();
    if (in == nullptr) return;
    const std::span<std::byte> room = buffers_->reply();
    const auto bytes = static_cast<uint32_t>(std::min<size_t>(in->size, room.size()));
    transfer_ = Transfer{.offset = in->offset,
                         .bytes = bytes,
                         .for_page_cache = (in->read_flags & FUSE_READ_LOCKOWNER) == 0,
                         .open_flags = in->flags,
                         .touch = touch_of(in->flags),
                         .data = buffers_->slice(room.first(bytes))};
  } else if (header_.opcode == FUSE_WRITE) {
    const auto* const in = arguments<fuse_write_in>();
    const std::span<std::byte> data = body(sizeof(fuse_write_in));
    if (in == nullptr || data.size() != in->size) return;
    transfer_ = Transfer{.offset = in->offset,
                         .bytes = in->size,
                         .for_page_cache = (in->write_flags & FUSE_WRITE_LOCKOWNER) == 0,
                         .writes_back = (in->write_flags & FUSE_WRITE_CACHE) != 0,
                         .kills_privileges = (in->write_flags & FUSE_WRITE_KILL_SUIDGID) != 0,
                         .open_flags = in->flags,
                         .data = buffers_->slice(data.first(in->size))};
  }
}

std::span<std::byte> FuseRequest::body(size_t arguments_bytes) const {
  return message_.subspan(std::min(message_.size(), sizeof(header_) + arguments_bytes));
}

std::string_view FuseRequest::name(size_t arguments_bytes) const {
  const std::span<const std::byte> bytes = body(arguments_bytes);
  const auto* const start = reinterpret_cast<const char*>(bytes.data());
  const size_t length = bytes.empty() ? 0 : strnlen(start, bytes.size());
  return length == bytes.size() ? std::string_view() : std::string_view(start, length);
}

bool FuseRequest::has(size_t arguments_bytes, size_t names) const {
  if (!whole_ || body(0).size() < arguments_bytes) return false;
  for (size_t at = arguments_bytes; names > 0; --names) {
    const std::string_view next = name(at);
    if (next.empty()) return false;
    at += next.size() + 1;
  }
  return true;
}

void FuseRequest::stamped(Ino ino) {
  if (ino == kNoIno ||
      std::find(stamped_.begin(), stamped_.begin() + stamped_count_, ino) != stamped_.begin() + stamped_count_) {
    return;
  }
  CHECK(stamped_count_ < stamped_.size());
  stamped_[stamped_count_++] = ino;
}

// Before every answer.
void FuseRequest::tell_kernel() {
  cache_.drop_stamped(std::span(stamped_).first(stamped_count_), context());
  if (clears_mode_ != kNoIno) cache_.drop_attributes(clears_mode_);
}

void FuseRequest::set_answered(int error, size_t payload_bytes) {
  answered_ = true;
  const bool moved = transfer_ && error == 0;
  const uint64_t bytes = !moved ? 0 : header_.opcode == FUSE_READ ? payload_bytes : transfer_->bytes;
  counters_.count(header_.opcode, error, std::chrono::steady_clock::now() - begun_, bytes);
}

bool FuseRequest::send_answer(int error, std::span<const std::byte> payload) {
  fuse_out_header header = answer_header(header_.unique, error, payload.size());
  const iovec parts[] = {{&header, sizeof(header)}, {const_cast<std::byte*>(payload.data()), payload.size()}};
  return send(std::span(parts, payload.empty() ? 1 : 2)) >= 0;
}

bool FuseRequest::finish(int error, std::span<const std::byte> payload) {
  CHECK(!answered_);
  tell_kernel();
  set_answered(error, payload.size());
  waiter_.end();
  const bool sent = send_answer(error, payload);
  for (const Name& each : std::exchange(renamed_, {})) cache_.drop_name(each.directory, each.name, each.ino);
  return sent;
}

bool FuseRequest::answer(const Error& error) {
  log_io_error(header_.opcode, ino(), error);
  return finish(error.code(), {});
}

void FuseRequest::answer_written(const Result<uint64_t>& written) {
  if (!written.ok()) log_io_error(header_.opcode, ino(), written.error());
  const fuse_write_out out{.size = written.ok() ? static_cast<uint32_t>(*written) : 0, .padding = 0};
  const int code = written.code();
  const std::span<const std::byte> payload = code == 0 ? bytes_of(out) : std::span<const std::byte>();
  if (transfer_->for_page_cache || !cache_.may_have_pages(ino(), transfer_->offset, transfer_->bytes)) {
    finish(code, payload);
    return;
  }
  cache_.drop_pages(
      ino(), {transfer_->offset, transfer_->bytes}, PageDropper::Asker::kKernel,
      [answer = answer_later(), code, out] { answer(code, code == 0 ? bytes_of(out) : std::span<const std::byte>()); });
}

void FuseRequest::dismiss() {
  set_answered(0, 0);
  waiter_.end();
}

// It is counted with its answer, when its memory may have the next one.
FuseRequest::Answer FuseRequest::answer_later() {
  CHECK(!answered_);
  tell_kernel();
  answered_ = true;
  waiter_.end();
  const uint64_t bytes = header_.opcode == FUSE_WRITE && transfer_ ? transfer_->bytes : 0;
  return [answer = put_aside(), opcode = header_.opcode, begun = begun_, bytes, &counters = counters_](
             int error, std::span<const std::byte> payload) {
    counters.count(opcode, error, std::chrono::steady_clock::now() - begun, error == 0 ? bytes : 0);
    answer(error, payload);
  };
}

// The waiter is locked; the thread looks there before it touches the request again.
void FuseRequest::answer_interrupted() {
  set_answered(EINTR, 0);
  (void)send_answer(EINTR, {});
}

}  // namespace brickfs
