// SPDX-License-Identifier: Apache-2.0
// The end of connection identifiers, and when a port may carry rdma_cm's messages again. Destroying an id that is
// connected sends the peer a message. When one is posted while the port of a Soft-RoCE device is down, no connection is
// made through that device any more, not even when the port is up again (seen with Linux 6.1; it seems that the queue
// pair for all such messages stays in its error state). Work requests fail some milliseconds before the port says that
// it is down. So an id is kept a moment, without its queue pair, so that nothing can land through it, and as long as
// its port is down; and no connection is begun through a port for which ids are kept.
//
// Threads: every call from any thread.
#pragma once

#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <thread>

#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs::verbs {

class DeferredDestroy {
 public:
  using Clock = std::chrono::steady_clock;

  // One for the process, as rdma_cm and its devices are.
  static DeferredDestroy& of_process();

  // Destroys the queue pair, and soon the id. Its event channel may go, nothing more is told there.
  void end(rdma_cm_id* id);
  // Until a connection may be begun through the id's port. EHOSTUNREACH: it is down; ETIMEDOUT.
  Status await_port(const rdma_cm_id& id, Clock::time_point deadline);

 private:
  struct Port {
    ibv_context* device = nullptr;
    uint8_t number = 0;
    bool operator==(const Port&) const = default;
    bool is_up() const;
  };
  struct Kept {
    rdma_cm_id* id;
    Port port;                    // of the id, which is another thread's while it is being destroyed
    rdma_event_channel* channel;  // its own: the one it had may be gone
    Clock::time_point since;
  };
  DeferredDestroy() = default;
  ~DeferredDestroy();  // the kernel deferred what is still kept
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::list<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the id that is being destroyed, too
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::verbs
