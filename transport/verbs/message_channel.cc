// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/message_channel.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

namespace brickfs::verbs {
namespace {

constexpr uint64_t kSendId = 1;
constexpr uint64_t kReceiveId = 2;
constexpr uint64_t kProbeId = 3;
constexpr int kQueueEntries = 8;

}  // namespace

Result<std::unique_ptr<MessageChannel>> MessageChannel::make(CmId id, size_t body_bytes, bool receives_first) {
  std::unique_ptr<MessageChannel> channel(new MessageChannel);
  TRY(channel->make_pair(std::move(id)));
  TRY(channel->reserve(body_bytes));
  if (receives_first) TRY(channel->post_receive());
  return channel;
}

Status MessageChannel::make_pair(CmId id) {
  ibv_context* const device = id.id->verbs;
  domain_ = TRY(make_domain(device));
  completions_ = TRY(make_completion_channel(device));
  queue_.reset(ibv_create_cq(device, kQueueEntries, nullptr, completions_.get(), 0));
  if (!queue_) return Error(ENOMEM, "the RDMA device has no completion queue left");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queue_.get();
  attributes.recv_cq = queue_.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = 2;
  attributes.cap.max_recv_wr = 2;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_sge = 1;
  if (rdma_create_qp(id.id.get(), domain_.get(), &attributes) != 0) {
    return Error(ENOMEM, "the RDMA device has no queue pair left");
  }
  id_ = std::move(id);
  return {};
}

Status MessageChannel::reserve(size_t body_bytes) {
  const size_t bytes = sizeof(wire::CallHeader) + body_bytes;
  if (incoming_.size() >= bytes) return {};
  TRY(drain());
  outgoing_region_.reset();
  incoming_region_.reset();
  outgoing_.assign(bytes, std::byte{});
  incoming_.assign(bytes, std::byte{});
  outgoing_region_ = TRY(register_region(domain_.get(), outgoing_, IBV_ACCESS_LOCAL_WRITE));
  incoming_region_ = TRY(register_region(domain_.get(), incoming_, IBV_ACCESS_LOCAL_WRITE));
  return {};
}

Status MessageChannel::post_receive() {
  ibv_sge memory{reinterpret_cast<uint64_t>(incoming_.data()), static_cast<uint32_t>(incoming_.size()),
                 incoming_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceiveId;
  request.sg_list = &memory;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  received_ = false;
  if (ibv_post_recv(id_.id->qp, &request, &bad) != 0) return Error(ENOTCONN, "connection is gone");
  return {};
}

Status MessageChannel::send(const wire::CallHeader& header, std::span<const std::byte> body) {
  if (sizeof(header) + body.size() > outgoing_.size()) return Error(EINVAL, "body is too long");
  TRY(drain());
  TRY(post_receive());
  wire::CallHeader first = header;
  first.length_bytes = static_cast<uint32_t>(body.size());
  std::memcpy(outgoing_.data(), &first, sizeof(first));
  if (!body.empty()) std::memcpy(outgoing_.data() + sizeof(header), body.data(), body.size());
  ibv_sge memory{reinterpret_cast<uint64_t>(outgoing_.data()), static_cast<uint32_t>(sizeof(header) + body.size()),
                 outgoing_region_->lkey};
  ibv_send_wr request{};
  request.wr_id = kSendId;
  request.sg_list = &memory;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  sent_ = false;
  if (ibv_post_send(id_.id->qp, &request, &bad) != 0) return Error(ENOTCONN, "connection is gone");
  return {};
}

Status MessageChannel::drain() { return wait_until(sent_, Clock::now() + limits::kProgressTimeout); }

Result<Message> MessageChannel::receive(Deadline deadline) {
  TRY(wait_until(received_, deadline));
  received_ = false;
  const std::span<const std::byte> bytes = std::span(incoming_).first(received_bytes_);
  if (bytes.size() < sizeof(wire::CallHeader)) return Error(EPROTO, "message is too short");
  Message message;
  message.header = load<wire::CallHeader>(bytes);
  const auto body = bytes.subspan(sizeof(wire::CallHeader));
  if (message.header.length_bytes != body.size()) return Error(EPROTO, "message has the wrong length");
  message.body.assign(body.begin(), body.end());
  return message;
}

// A write of no bytes: it needs no memory on either side and no key (InfiniBand specification, C9-88).
Status MessageChannel::probe() {
  if (probing_) return {};
  ibv_send_wr request{};
  request.wr_id = kProbeId;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  probing_ = true;
  if (ibv_post_send(id_.id->qp, &request, &bad) != 0) return Error(ENOTCONN, "connection is gone");
  return {};
}

// `done`: sent_ or received_.
Status MessageChannel::wait_until(const bool& done, Deadline deadline) {
  TRY(take_completions());
  if (done) return {};
  Status taken;
  const auto comes = [&] {
    taken = take_completions();
    return done || !taken.ok();
  };
  Status slept;
  wait_.begin();
  if (!wait_.poll(comes)) {
    while (slept.ok() && !comes()) slept = sleep(done, deadline);
  }
  wait_.end();
  return slept.ok() ? taken : slept;
}

// Until something comes, once. ETIMEDOUT.
Status MessageChannel::sleep(const bool& done, Deadline deadline) {
  if (ibv_req_notify_cq(queue_.get(), 0) != 0) return Error(ENOTCONN, "connection is gone");
  TRY(take_completions());  // what came before the notification was asked for
  if (done) return {};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0) return Error(ETIMEDOUT, "peer does not answer");
  pollfd entry{completions_->fd, POLLIN, 0};
  ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(completions_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
  return {};
}

Status MessageChannel::take_completions() {
  ibv_wc completion{};
  int got = 0;
  while ((got = ibv_poll_cq(queue_.get(), 1, &completion)) > 0) {
    if (completion.status != IBV_WC_SUCCESS) {
      broken_ = true;
    } else if (completion.wr_id == kSendId) {
      sent_ = true;
    } else if (completion.wr_id == kProbeId) {
      probing_ = false;
    } else {
      received_ = true;
      received_bytes_ = completion.byte_len;
    }
  }
  if (got < 0 || broken_) return Error(ENOTCONN, "connection is gone");
  return {};
}

void MessageChannel::shut_down() {
  shut_down_ = true;
  break_pair(id_.id->qp);
}

// A client has the id's events to itself; a brick's listener sees to those of its ids, and shuts the channel down.
pollfd MessageChannel::watch() const { return {id_.channel ? id_.channel->fd : -1, POLLIN, 0}; }

bool MessageChannel::peer_has_gone() { return shut_down_.load() || (id_.channel && has_ended(*id_.channel)); }

}  // namespace brickfs::verbs
