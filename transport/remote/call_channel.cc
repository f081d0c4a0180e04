// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/call_channel.h"

#include <algorithm>
#include <utility>

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kProbeAfter{250};  // of silence
constexpr milliseconds kAnswered{300};    // a brick that is well has answered by then, but for what its disk takes

}  // namespace

Result<Reply> exchange(Channel& channel, calls::Kind kind, uint64_t id, std::span<const std::byte> body,
                       Deadline deadline) {
  wire::CallHeader header;
  header.kind = static_cast<uint16_t>(kind);
  header.id = id;
  TRY(channel.send(header, body));
  const auto wait_a_while = [&] {
    return channel.wait(std::min<Deadline>(deadline, steady_clock::now() + kProbeAfter));
  };
  auto come = wait_a_while();
  while (come.code() == ETIMEDOUT && steady_clock::now() < deadline) {
    TRY(channel.probe());
    come = wait_a_while();
  }
  TRY(come);
  Message answer = TRY(channel.receive(deadline));
  if (answer.header.kind != (header.kind | wire::kReplyBit) || answer.header.id != id ||
      answer.header.status > wire::kHighestErrno) {
    return Error(EPROTO, "answer to another call");
  }
  return Reply{answer.header.status, std::move(answer.body)};
}

Result<Reply> CallChannel::call(uint64_t id, const calls::Request& request, milliseconds timeout) {
  if (!take_turn()) return Error(ENOTCONN, "connection is gone");
  auto reply = exchange(*channel_, calls::kind_of(request), id, calls::encode(request), steady_clock::now() + timeout);
  if (!reply.ok()) shut_down();  // before anybody has the turn, who would get the late answer
  give_turn(reply.ok());
  return reply;
}

bool CallChannel::take_turn() {
  MutexLock lock(mutex_);
  while (taken_ && !dead_) free_.wait(lock);
  if (dead_) return false;
  taken_ = true;
  taken_at_ = steady_clock::now();
  return true;
}

void CallChannel::give_turn(bool answered) {
  MutexLock lock(mutex_);
  taken_ = false;
  heard_at_ = steady_clock::now();
  if (answered) known_at_ = taken_at_;
  free_.notify_one();
}

void CallChannel::shut_down() {
  {
    MutexLock lock(mutex_);
    free_.notify_all();
    if (std::exchange(dead_, true)) return;
  }
  channel_->shut_down();
}

bool CallChannel::busy() const {
  MutexLock lock(mutex_);
  return taken_;
}

bool CallChannel::dead() const {
  MutexLock lock(mutex_);
  return dead_;
}

steady_clock::time_point CallChannel::known_at() const {
  MutexLock lock(mutex_);
  return known_at_;
}

milliseconds CallChannel::silence() const {
  MutexLock lock(mutex_);
  const auto now = steady_clock::now();
  if (dead_ || !taken_ || now - taken_at_ < kAnswered) return {};
  return std::chrono::duration_cast<milliseconds>(now - heard_at_);
}

}  // namespace brickfs
