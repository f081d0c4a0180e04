// SPDX-License-Identifier: Apache-2.0
// A channel whose peer says nothing. Time passes at once for who waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

#include "transport/brick/channel.h"

namespace brickfs::testing {

class SilentChannel final : public Channel {
 public:
  // The peer's end is noticed when it has been probed so often.
  explicit SilentChannel(size_t probes_to_the_end = std::numeric_limits<size_t>::max())
      : probes_to_the_end_(probes_to_the_end) {}
  size_t sent() const { return sent_.load(); }
  size_t probes() const { return probes_.load(); }

  Status reserve(size_t) override { return {}; }
  Status send(const wire::CallHeader&, std::span<const std::byte>) override {
    ++sent_;
    return {};
  }
  Status wait(Deadline) override { return gone_ ? Error(ENOTCONN, "gone") : Error(ETIMEDOUT, "nothing yet"); }
  Result<Message> receive(Deadline deadline) override { return wait(deadline).error(); }
  Status probe() override {
    if (++probes_ == probes_to_the_end_) gone_ = true;
    return {};
  }
  pollfd watch() const override { return {-1, POLLIN, 0}; }
  bool peer_has_gone() override { return gone_; }
  void shut_down() override { gone_ = true; }

 private:
  const size_t probes_to_the_end_;
  std::atomic<size_t> sent_{0};
  std::atomic<size_t> probes_{0};
  std::atomic<bool> gone_{false};
};

}  // namespace brickfs::testing
