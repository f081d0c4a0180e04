// SPDX-License-Identifier: Apache-2.0
// Requests that no worker is at: what each waits for needs workers to come about. Whoever brings it about answers;
// before that, whoever interrupts the request (fs/fuse/interrupts.h), its longest time, or the mount's end.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>

#include "fs/fuse/operation_counters.h"
#include "fs/fuse/waiter.h"
#include "transport/base/bytes.h"
#include "transport/base/result.h"

namespace brickfs {

// A place for one, then for others.
class ParkedRequest final : public FusePlace {
 public:
  // Called once, by any thread.
  using Answer = std::function<void(int error, std::span<const std::byte> payload)>;
  using Clock = std::chrono::steady_clock;

  ParkedRequest() = default;
  ParkedRequest(const ParkedRequest&) = delete;
  ParkedRequest& operator=(const ParkedRequest&) = delete;

  // None comes.
  void leave() { taken_ = false; }
  // One comes, as FuseRequest::park() hands it over: its waiter follows.
  void begin(uint32_t opcode, Clock::time_point begun, OperationCounters& counters, Answer answer);
  // Exactly one of these, once. If it has its answer already, that stays; in any case the place is free.
  void answer(const Error& error) { finish(error.code(), {}); }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void answer_with(const T& out) { finish(0, bytes_of(out)); }

  FuseWaiter& waiter() override { return waiter_; }
  void answer_interrupted() override { send(EINTR, {}); }

 private:
  friend class ParkedRequests;
  // If it waits, and has done so for so long, it is answered. The place stays taken.
  void give_up(Clock::duration after, const Error& error);
  void finish(int error, std::span<const std::byte> payload);
  void send(int error, std::span<const std::byte> payload);

  std::atomic<bool> taken_{false};
  FuseWaiter waiter_;
  uint32_t opcode_ = 0;
  Clock::time_point begun_{};
  OperationCounters* counters_ = nullptr;
  Answer answer_;
};

// All of a mount.
class ParkedRequests {
 public:
  using Clock = ParkedRequest::Clock;
  static constexpr size_t kMost = 64;  // over io_uring there are fewer: each keeps its entry (fs/fuse/ring_queue.h)

  // How long one waits while the brick is away, and in any case: then it gets EIO. Before the first request is served.
  struct Longest {
    std::optional<Clock::duration> away;
    std::optional<Clock::duration> ever;
  };
  void set_longest(const Longest& longest) { longest_ = longest; }
  // Null: none is free, or after stop().
  ParkedRequest* take();
  std::span<ParkedRequest> places() { return places_; }
  // Now and then, while there are any: answers those that are to wait no longer.
  void look(bool is_away);
  // None is to wait any more: each gets EINVAL, one that is on its way to its place with the next look().
  void stop();

 private:
  void give_up(Clock::duration after, const Error& error);

  Longest longest_;
  std::atomic<bool> stopped_{false};
  std::array<ParkedRequest, kMost> places_;
};

}  // namespace brickfs
