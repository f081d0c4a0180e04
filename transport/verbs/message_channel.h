// SPDX-License-Identifier: Apache-2.0
// Messages as SENDs. The two ends take turns, and whoever sends has posted the receive for what comes back, so no
// receiver is ever unready. Its queue pair has a protection domain of its own in which nothing can be reached from
// afar. docs/protocol.md, "RDMA".
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/result.h"
#include "transport/base/short_wait.h"
#include "transport/brick/channel.h"
#include "transport/verbs/cm.h"

namespace brickfs::verbs {

class MessageChannel final : public Channel {
 public:
  // Makes the queue pair of `id`. With `receives_first` the receive for the peer's first message is posted.
  static Result<std::unique_ptr<MessageChannel>> make(CmId id, size_t body_bytes, bool receives_first);

  Status reserve(size_t body_bytes) override;
  Status send(const wire::CallHeader& header, std::span<const std::byte> body) override;
  Status wait(Deadline deadline) override { return wait_until(received_, deadline); }
  Result<Message> receive(Deadline deadline) override;
  Status drain() override;
  Status probe() override;
  pollfd watch() const override;
  bool peer_has_gone() override;
  void shut_down() override;

  const CmId& id() const { return id_; }

 private:
  MessageChannel() = default;
  Status make_pair(CmId id);
  Status post_receive();
  Status wait_until(const bool& done, Deadline deadline);
  Status sleep(const bool& done, Deadline deadline);
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
  ShortWait wait_{ShortWait::kForMessage};
  std::atomic<bool> shut_down_{false};
};

}  // namespace brickfs::verbs
