// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/joint_requests.h"

#include <algorithm>

#include "fs/fuse/extra.h"
#include "fs/fuse/reply.h"

namespace brickfs {
namespace {

thread_local JointRequests* current_requests = nullptr;

}  // namespace

bool JointRequests::suits(std::span<const std::byte> message) {
  const size_t bytes = data_bytes(message);
  return bytes > 0 && bytes <= kFewBytes;
}

JointRequests* JointRequests::current() { return current_requests; }

void JointRequests::begin_adding(FusePlace& place) {
  FusePlace::set_current(&place);
  current_requests = this;
}

void JointRequests::end_adding() {
  current_requests = nullptr;
  FusePlace::set_current(nullptr);
}

void JointRequests::read(fuse_req_t request, Ino ino, uint64_t offset, const LocalSlice& into, Touch touch) {
  if (!transfer_.begin_read(ino, offset, into, touch)) return decline(request);
  begun_.push_back({FusePlace::current(), request, into.data, ino, offset, into.length_bytes, false});
}

void JointRequests::write(fuse_req_t request, Ino ino, uint64_t offset, const LocalSlice& from, bool mapped) {
  if (!transfer_.begin_write(ino, offset, from, mapped)) return decline(request);
  begun_.push_back({FusePlace::current(), request, nullptr, ino, offset, from.length_bytes, mapped});
}

// Frees what libfuse has of it.
void JointRequests::decline(fuse_req_t request) { fuse_reply_none(request); }

bool JointRequests::finish(const Interruption& by) {
  const Status moved = transfer_.move(&by);
  const bool done = moved.code() != EINTR;
  done ? answer_all(moved) : decline_all();
  return done;
}

bool JointRequests::try_to_finish() {
  const Status moved = transfer_.try_move();
  moved.ok() ? answer_all(moved) : decline_all();
  return moved.ok();
}

void JointRequests::decline_all() {
  for (const Begun& begun : begun_) decline(begun.request);
}

void JointRequests::answer_all(const Status& moved) {
  for (size_t i = 0; i < begun_.size(); ++i) {
    FusePlace::set_current(begun_[i].place);
    answer(begun_[i], moved.ok() ? transfer_.result(i) : moved.error());
    if (FusePlace::current() == nullptr) put_aside_.push_back(begun_[i].place);
  }
  FusePlace::set_current(nullptr);
}

void JointRequests::answer(const Begun& begun, const Result<uint64_t>& bytes) {
  if (begun.mapped) note_written_back(begun.request, begun.ino, begun.offset + begun.length, bytes);
  if (begun.read_to == nullptr) return reply_written(begun.request, begun.ino, begun.offset, begun.length, bytes);
  if (!bytes.ok()) return reply_error(begun.request, bytes.error());
  fuse_reply_buf(begun.request, reinterpret_cast<const char*>(begun.read_to), *bytes);
}

bool JointRequests::was_put_aside(const FusePlace& place) const {
  return std::find(put_aside_.begin(), put_aside_.end(), &place) != put_aside_.end();
}

}  // namespace brickfs
