// SPDX-License-Identifier: Apache-2.0
// The brick's queue pair for data, by which the client reads and writes memory. The brick itself posts nothing on it
// but bindings and invalidations of windows. Threads: none of its own, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "server/verbs/domain.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/verbs/cm.h"

namespace brickfs {

// A type-2 window bound to one queue pair. Unbound by VerbsQueuePair::unbind(), or by that one's end.
struct VerbsWindow {
  verbs::MwPtr window;
  uint32_t key = 0;
};

class VerbsQueuePair {
 public:
  // Makes the queue pair and accepts the connection. The id goes with it.
  static Result<std::unique_ptr<VerbsQueuePair>> accept(verbs::CmIdPtr id, VerbsDomain& domain,
                                                        const rdma_conn_param& asked);
  // No access through it can land any more. Precondition: stop()ped, and the windows bound to it are gone.
  ~VerbsQueuePair() = default;
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;

  VerbsDomain& domain() const { return domain_; }
  ibv_context* device() const { return id_->verbs; }

  // To the error state, where the device takes nothing from the peer. A queue pair with type-2B windows bound to it
  // must not be destroyed (Soft-RoCE never returns from that), so this comes first, then the windows go, then the queue
  // pair.
  void stop() { verbs::break_pair(id_->qp); }

  // ENOTCONN: the queue pair does not work any more.
  Result<std::unique_ptr<VerbsWindow>> bind(std::span<std::byte> memory, Access access);
  // False: the queue pair does not work any more, so the window is open as long as it is there.
  [[nodiscard]] bool unbind(std::span<const VerbsWindow* const> windows);

 private:
  explicit VerbsQueuePair(VerbsDomain& domain) : domain_(domain) {}
  Status post_and_wait(ibv_send_wr& chain, size_t count);

  VerbsDomain& domain_;
  verbs::CqPtr queue_;
  verbs::CmIdPtr id_;
};

}  // namespace brickfs
