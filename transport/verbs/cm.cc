// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/cm.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/unknown_host.h"
#include "transport/verbs/deferred_destroy.h"

namespace brickfs::verbs {
namespace {

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

Result<CmId> make_id() {
  CmId made;
  made.channel.reset(rdma_create_event_channel());
  if (!made.channel) return Error(ENODEV, "no RDMA device here");
  const int flags = ::fcntl(made.channel->fd, F_GETFL);
  ::fcntl(made.channel->fd, F_SETFL, flags | O_NONBLOCK);
  ::fcntl(made.channel->fd, F_SETFD, FD_CLOEXEC);
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(made.channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) return errno_error("rdma_create_id");
  made.id.reset(id);
  return made;
}

// Numbers that rdma_cm gives for a request that was turned down (IB specification, REJ reasons).
constexpr int kRejectInvalidService = 8;  // nobody listens there
constexpr int kRejectConsumer = 28;       // the listener itself said no

Error explain_event(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (event.status == -ENODEV) return Error(ENODEV, "no RDMA device leads to that address");
      return Error(EHOSTUNREACH, "host cannot be reached over RDMA");
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return Error(EHOSTUNREACH, "host cannot be reached over RDMA");
    case RDMA_CM_EVENT_REJECTED:
      if (event.status == kRejectInvalidService) return Error(ECONNREFUSED, "nobody listens there");
      if (event.status == kRejectConsumer) return Error(ECONNREFUSED, "the brick turned the connection down");
      return Error(ECONNREFUSED, "the connection was rejected");
    case RDMA_CM_EVENT_UNREACHABLE:
      return event.status == -ETIMEDOUT ? Error(ETIMEDOUT, "brick does not answer")
                                        : Error(EHOSTUNREACH, "host cannot be reached over RDMA");
    default:
      return Error(EHOSTUNREACH, "the RDMA connection could not be made");
  }
}

Status expect_event(rdma_event_channel& channel, rdma_cm_event_type wanted, Deadline deadline) {
  const CmEventPtr event = TRY(next_event(channel, deadline));
  if (event->event != wanted) return explain_event(*event);
  return {};
}

Result<CmId> find_path_to(sockaddr* address, Deadline deadline) {
  CmId made = TRY(make_id());
  const int patience = std::max(1, milliseconds_until(deadline));
  if (rdma_resolve_addr(made.id.get(), nullptr, address, patience) != 0) {
    return errno == ENODEV ? Error(ENODEV, "no RDMA device leads to that address")
                           : Error(EHOSTUNREACH, "host cannot be reached over RDMA");
  }
  TRY(expect_event(*made.channel, RDMA_CM_EVENT_ADDR_RESOLVED, deadline));
  TRY(DeferredDestroy::of_process().await_port(*made.id, deadline));
  set_ack_timeout(made.id.get());
  if (rdma_resolve_route(made.id.get(), patience) != 0) return Error(EHOSTUNREACH, "no route over RDMA");
  TRY(expect_event(*made.channel, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline));
  return made;
}

}  // namespace

Result<AddressList> resolve_host(const HostPort& peer, bool passive) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = passive ? RAI_PASSIVE : 0;
  rdma_addrinfo* list = nullptr;
  const std::string port = std::to_string(peer.port);
  if (rdma_getaddrinfo(peer.host.c_str(), port.c_str(), &hints, &list) != 0 || list == nullptr) {
    return Error(EHOSTUNREACH, kUnknownHost);
  }
  return AddressList(list);
}

Result<CmEventPtr> next_event(rdma_event_channel& channel, Deadline deadline) {
  while (true) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(&channel, &event) == 0) return CmEventPtr(event);
    if (errno != EAGAIN && errno != EINTR) return errno_error("rdma_get_cm_event");
    const int patience = milliseconds_until(deadline);
    if (patience == 0) return Error(ETIMEDOUT, "brick does not answer");
    pollfd entry{channel.fd, POLLIN, 0};
    ::poll(&entry, 1, patience);
  }
}

Result<CmId> find_path(const HostPort& peer, Deadline deadline) {
  const AddressList list = TRY(resolve_host(peer, false));
  int64_t left = 0;
  for (const rdma_addrinfo* at = list.get(); at != nullptr; at = at->ai_next) ++left;
  Error error(EHOSTUNREACH, "no address for this host");
  for (const rdma_addrinfo* at = list.get(); at != nullptr; at = at->ai_next, --left) {
    if (at->ai_dst_addr == nullptr) continue;
    const auto now = Clock::now();
    auto path = find_path_to(at->ai_dst_addr, now + (deadline - now) / left);
    if (path.ok()) return path;
    error = path.error();
  }
  return error;
}

Result<ConnectReply> connect(const CmId& id, const ConnectRequest& request, const DeviceFacts& facts,
                             Deadline deadline) {
  rdma_conn_param parameters = connection_parameters(facts, nullptr);
  parameters.private_data = &request;
  parameters.private_data_len = sizeof(request);
  if (rdma_connect(id.id.get(), &parameters) != 0) return errno_error("rdma_connect");
  const CmEventPtr event = TRY(next_event(*id.channel, deadline));
  if (event->event != RDMA_CM_EVENT_ESTABLISHED) return explain_event(*event);
  const auto* data = static_cast<const std::byte*>(event->param.conn.private_data);
  return decode_reply({data, data == nullptr ? size_t{0} : event->param.conn.private_data_len});
}

bool has_ended(rdma_event_channel& channel) {
  bool ended = false;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(&channel, &event) == 0) {
    const CmEventPtr guard(event);
    ended = ended || event->event == RDMA_CM_EVENT_DISCONNECTED || event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
  }
  return ended;
}

void set_ack_timeout(rdma_cm_id* id) {
  uint8_t timeout = limits::kAckTimeout;
  if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)) != 0) {
    log::warn("the RDMA ACK timeout cannot be set: {}; a dead path may be noticed late", std::strerror(errno));
  }
}

rdma_conn_param connection_parameters(const DeviceFacts& facts, const rdma_conn_param* request) {
  rdma_conn_param parameters{};
  parameters.responder_resources = static_cast<uint8_t>(facts.reads_in);
  parameters.initiator_depth = static_cast<uint8_t>(facts.reads_out);
  if (request != nullptr) {
    parameters.responder_resources = std::min(parameters.responder_resources, request->responder_resources);
    parameters.initiator_depth = std::min(parameters.initiator_depth, request->initiator_depth);
  }
  parameters.retry_count = limits::kRetryCount;
  parameters.rnr_retry_count = limits::kRnrRetryCount;
  return parameters;
}

void break_pair(ibv_qp* pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(pair, &attributes, IBV_QP_STATE);
}

}  // namespace brickfs::verbs
