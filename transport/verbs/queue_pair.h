// SPDX-License-Identifier: Apache-2.0
// The client's queue pair for data, by RDMA READ and WRITE, its completion queue, and what is under way on it. Posts
// and polls, nothing else; a failure is for its owner to clear up (drain()).
//
// A queue pair completes its work requests in order, so only the last of a chain is signalled, and its completion is
// that of all before it. After a failure nothing is complete until the queue pair is in the error state and has given
// everything back.
//
// Threads: every call from any thread, drain() from one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"
#include "transport/onesided/local_memory.h"
#include "transport/onesided/queue_pair.h"
#include "transport/verbs/client_device.h"
#include "transport/verbs/cm.h"

namespace brickfs::verbs {

using onesided::Part;
using onesided::Parts;

// The completion queues of a device's queue pairs tell of completions here.
class CompletionChannel final : public onesided::CompletionEvents {
 public:
  static Result<std::shared_ptr<CompletionChannel>> make(ibv_context* device);
  ibv_comp_channel* get() const { return channel_.get(); }
  int fd() const override { return channel_->fd; }
  void take(const std::function<void(size_t pair)>& disarmed) override;

 private:
  explicit CompletionChannel(CompChannelPtr channel) : channel_(std::move(channel)) {}
  const CompChannelPtr channel_;
};

class QueuePair final : public onesided::QueuePair {
 public:
  struct Opened {  // by a handshake
    CqPtr queue;
    CmId id;  // goes first; the queue pair's owner takes its channel, which goes last
    uint32_t number = 0;
    uint32_t inline_bytes = 0;
    ConnectReply reply;
  };
  // Makes the queue pair with this number in its session on `id`, before it is connected.
  static Result<Opened> make(CmId id, uint32_t number, ClientDevice& device, ibv_comp_channel* completions);

  QueuePair(Opened opened, ClientDevice& device, std::shared_ptr<CompletionChannel> completions,
            const onesided::LocalMemory& memory);

  Result<size_t> post(std::span<const Part> parts) override;
  void poll(Parts& done) override;
  // While nobody polls: who has polled in vain would leave what came before this to nobody.
  void arm() override;
  void disarm() override { armed_ = false; }
  void fail() override;
  Parts drain(Parts& done) override;

 private:
  struct Chain;
  Part& part_at(uint64_t place) { return ring_[place % ring_.size()]; }
  size_t prepare(std::span<const Part> parts, size_t room, Chain& chain);
  bool prepare_one(Part part, Chain& chain);
  void take(std::span<const ibv_wc> completions, Parts& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);

  ClientDevice& device_;
  const onesided::LocalMemory& memory_;
  const uint64_t flush_address_;
  const uint32_t flush_key_;
  std::array<std::byte, kFlushBytes> flush_into_{};

  // Work requests [completed_, posted_) are under way, in ring_ modulo its size.
  std::vector<Part> ring_;
  bool armed_ = false;

  Mutex post_mutex_;
  Mutex poll_mutex_;
  uint64_t returned_ ABSL_GUARDED_BY(poll_mutex_) = 0;  // every work request before this has come back, well or not

  // Gone once drained, which has both mutexes then. In the order of their making.
  MrPtr flush_region_;
  CqPtr queue_;
  CmIdPtr id_;  // with the queue pair
};

// For the log: what a completion says went wrong.
const char* describe(ibv_wc_status status);

}  // namespace brickfs::verbs
