// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/endpoint.h"

#include <rdma/fi_eq.h>

#include <utility>

namespace brickfs::fabric {

Result<std::shared_ptr<CompletionQueue>> CompletionQueue::open(std::shared_ptr<Domain> domain, size_t entries) {
  std::shared_ptr<CompletionQueue> made(new CompletionQueue(std::move(domain)));
  fi_cq_attr attributes{};
  attributes.size = entries;
  attributes.format = FI_CQ_FORMAT_CONTEXT;
  fid_cq* queue = nullptr;
  int code = 0;
  for (const fi_wait_obj wait : {FI_WAIT_FD, FI_WAIT_NONE}) {
    attributes.wait_obj = wait;
    code = fi_cq_open(made->domain_->domain(), &attributes, &queue, nullptr);
    if (code == 0) break;
  }
  if (code != 0) return error_of(code, "fi_cq_open");
  made->queue_.reset(queue);
  if (attributes.wait_obj == FI_WAIT_FD && fi_control(&queue->fid, FI_GETWAIT, &made->fd_) != 0) made->fd_ = -1;
  return made;
}

bool CompletionQueue::may_sleep() {
  fid* waits[] = {&queue_->fid};
  const bool may = fd_ >= 0 && fi_trywait(domain_->fabric(), waits, 1) == 0;
  may_sleep_.store(may);
  return may;
}

namespace {

Status count_accesses(Endpoint& made, fid_domain* domain) {
  fi_cntr_attr attributes{};
  attributes.events = FI_CNTR_EVENTS_COMP;
  attributes.wait_obj = FI_WAIT_NONE;
  fid_cntr* counter = nullptr;
  if (const int code = fi_cntr_open(domain, &attributes, &counter, nullptr); code != 0)
    return error_of(code, "fi_cntr_open");
  made.accesses.reset(counter);
  const int code = fi_ep_bind(made.endpoint.get(), &counter->fid, FI_REMOTE_READ | FI_REMOTE_WRITE);
  return code == 0 ? Status() : error_of(code, "fi_ep_bind");
}

}  // namespace

Result<Endpoint> Endpoint::open(const std::shared_ptr<Domain>& domain, size_t entries) {
  Endpoint made;
  made.queue = TRY(CompletionQueue::open(domain, entries));
  fid_ep* endpoint = nullptr;
  if (const int code = fi_endpoint(domain->domain(), domain->provider().info.get(), &endpoint, nullptr); code != 0)
    return error_of(code, "fi_endpoint");
  made.endpoint.reset(endpoint);
  if (const int code = fi_ep_bind(endpoint, &made.queue->get()->fid, FI_TRANSMIT | FI_RECV); code != 0)
    return error_of(code, "fi_ep_bind");
  if (const int code = fi_ep_bind(endpoint, &domain->addresses()->fid, 0); code != 0)
    return error_of(code, "fi_ep_bind");
  if (domain->provider().counts_accesses()) TRY(count_accesses(made, domain->domain()));
  if (const int code = fi_enable(endpoint); code != 0) return error_of(code, "fi_enable");
  return made;
}

Result<std::vector<std::byte>> Endpoint::name() const {
  size_t length = 0;
  fi_getname(&endpoint->fid, nullptr, &length);
  std::vector<std::byte> name(length);
  if (const int code = fi_getname(&endpoint->fid, name.data(), &length); code != 0) return error_of(code, "fi_getname");
  name.resize(length);
  return name;
}

}  // namespace brickfs::fabric
