// SPDX-License-Identifier: Apache-2.0
// A connection that carries calls and their answers, each one SEND: a wire::CallHeader and its body. The two ends take
// turns, and whoever sends has posted the receive for what comes back, so no receiver is ever unready. Its queue pair
// has a protection domain of its own in which nothing can be reached from afar. docs/protocol.md, "RDMA".
//
// Threads: one at a time, but shut_down() from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/wire.h"
#include "transport/verbs/cm.h"

namespace brickfs::verbs {

struct Message {
  wire::CallHeader header;
  std::vector<std::byte> body;
};

class MessageChannel {
 public:
  // Makes the queue pair of `id`. With `receives_first` the receive for the peer's first message is posted.
  static Result<std::unique_ptr<MessageChannel>> make(CmId id, size_t body_bytes, bool receives_first);
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  // Room for larger bodies from now on. Between receive() and send(), or before the first send().
  Status reserve(size_t body_bytes);
  // ENOTCONN: the connection is gone.
  Status send(const wire::CallHeader& header, std::span<const std::byte> body);
  // Until the peer has what was sent: before the connection is ended.
  Status drain();
  // ENOTCONN, EPROTO; ETIMEDOUT: nothing yet, it may be asked for again.
  Result<Message> receive(Deadline deadline);
  // Has the peer's device, not its processor, answer: if it does not, receive() gets ENOTCONN soon, as it does not when
  // it only waits.
  Status probe();
  // Everybody who waits here, or will, gets ENOTCONN.
  void shut_down();
  bool is_shut_down() const { return shut_down_.load(); }

  const CmId& id() const { return id_; }

 private:
  MessageChannel() = default;
  Status make_pair(CmId id);
  Status post_receive();
  Status wait_until(const bool& done, Deadline deadline);
  Status take_completions();

  // In the order of their making; the queue pair (with its id) goes first.
  PdPtr domain_;
  CompChannelPtr completions_;
  CqPtr queue_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  MrPtr outgoing_region_;
  MrPtr incoming_region_;
  CmId id_;

  bool sent_ = true;  // nothing of outgoing_ is under way
  bool probing_ = false;
  bool received_ = false;
  size_t received_bytes_ = 0;
  bool broken_ = false;
  std::atomic<bool> shut_down_{false};
};

// One call, one answer. A peer that is silent for a while is probed, so that a path that died is noticed.
struct Answer {
  int status = 0;  // 0 or an errno, as the brick says
  std::vector<std::byte> body;
};
Result<Answer> exchange(MessageChannel& channel, wire::Kind kind, uint64_t id, std::span<const std::byte> body,
                        Deadline deadline);

}  // namespace brickfs::verbs
