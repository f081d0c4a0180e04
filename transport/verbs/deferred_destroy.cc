// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/deferred_destroy.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/base/log.h"

namespace brickfs::verbs {
namespace {

// Much longer than a port takes to say that it is down.
constexpr std::chrono::milliseconds kMoment{150};

void destroy(rdma_cm_id* id) {
  if (rdma_destroy_id(id) != 0) log::error("bug: rdma_destroy_id failed: {}", std::strerror(errno));
}

}  // namespace

bool DeferredDestroy::Port::is_up() const {
  ibv_port_attr port{};
  // One that cannot be asked is no port that could be spoilt.
  return ibv_query_port(device, number, &port) != 0 || port.state == IBV_PORT_ACTIVE;
}

DeferredDestroy& DeferredDestroy::of_process() {
  static DeferredDestroy deferred;
  return deferred;
}

DeferredDestroy::~DeferredDestroy() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void DeferredDestroy::end(rdma_cm_id* id) {
  if (id->qp == nullptr) return destroy(id);  // it listened, or came to nothing
  rdma_destroy_qp(id);
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr || rdma_migrate_id(id, channel) != 0) {
    if (channel != nullptr) rdma_destroy_event_channel(channel);
    return destroy(id);
  }
  MutexLock lock(mutex_);
  kept_.push_back({id, {id->verbs, id->port_num}, channel, Clock::now()});
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void DeferredDestroy::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto now = Clock::now();
    const auto due =
        std::ranges::find_if(kept_, [now](const Kept& one) { return now - one.since >= kMoment && one.port.is_up(); });
    if (due != kept_.end()) {
      lock.unlock();
      destroy(due->id);
      rdma_destroy_event_channel(due->channel);
      lock.lock();
      kept_.erase(due);
      changed_.notify_all();
    } else if (kept_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, kMoment);
    }
  }
}

Status DeferredDestroy::await_port(const rdma_cm_id& id, Clock::time_point deadline) {
  const Port port{id.verbs, id.port_num};
  MutexLock lock(mutex_);
  while (true) {
    if (!port.is_up()) return Error(EHOSTUNREACH, "the link of the RDMA device that leads there is down");
    if (std::ranges::find(kept_, port, &Kept::port) == kept_.end()) return {};
    if (Clock::now() >= deadline) return Error(ETIMEDOUT, "the RDMA device does not let former connections go");
    changed_.wait_for(lock, kMoment);
  }
}

}  // namespace brickfs::verbs
