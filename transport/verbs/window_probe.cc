// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/window_probe.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>

#include "transport/brick/limits.h"
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_ptr.h"

namespace brickfs::verbs {
namespace {

constexpr size_t kRegionBytes = 8192;
constexpr size_t kWindowBytes = 4096;
constexpr uint8_t kPort = 1;
constexpr std::chrono::seconds kPatience{2};

struct Place {  // of a port on its fabric
  ibv_port_attr port{};
  ibv_gid gid{};
  uint8_t gid_index = 0;
};

// RoCE needs a GID that belongs to an address; the last one that is not zero does.
Result<Place> find_place(ibv_context* device) {
  Place place;
  if (ibv_query_port(device, kPort, &place.port) != 0) return Error(EIO, "the port does not describe itself");
  if (place.port.state != IBV_PORT_ACTIVE) return Error(ENETDOWN, "the port is down");
  bool found = false;
  for (int index = 0; index < place.port.gid_tbl_len && index < 16; ++index) {
    ibv_gid gid{};
    if (ibv_query_gid(device, kPort, index, &gid) != 0) continue;
    if (gid.global.interface_id == 0 && gid.global.subnet_prefix == 0) continue;
    place.gid = gid;
    place.gid_index = static_cast<uint8_t>(index);
    found = true;
  }
  if (!found) return Error(EADDRNOTAVAIL, "the port has no address");
  return place;
}

class Probe {
 public:
  Status refuses_beyond(ibv_context* device);
  Status refuses_after_invalidation(ibv_context* device);

 private:
  Status make(ibv_context* device);
  Status connect(ibv_qp* pair, uint32_t peer, const Place& place) const;
  Status bind();
  Status write(uint64_t offset) const;
  Status post(ibv_qp* pair, ibv_send_wr request) const;

  alignas(4096) std::array<std::byte, kRegionBytes> memory_{};
  alignas(64) std::array<std::byte, 64> from_{};
  PdPtr domain_;
  CqPtr queue_;
  MrPtr region_;
  MrPtr from_region_;
  QpPtr here_;   // the client's part: it writes
  QpPtr there_;  // the brick's part: the window is bound to it
  MwPtr window_;
  uint32_t key_ = 0;
};

Result<QpPtr> make_pair(ibv_pd* domain, ibv_cq* queue) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queue;
  attributes.recv_cq = queue;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {4, 1, 1, 1, 0};
  QpPtr pair(ibv_create_qp(domain, &attributes));
  if (!pair) return Error(ENOMEM, "no queue pair");
  return pair;
}

Status Probe::make(ibv_context* device) {
  const Place place = TRY(find_place(device));
  domain_ = TRY(make_domain(device));
  queue_.reset(ibv_create_cq(device, 16, nullptr, nullptr, 0));
  if (!queue_) return Error(ENOMEM, "no completion queue");
  region_ = TRY(register_region(domain_.get(), memory_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
  from_region_ = TRY(register_region(domain_.get(), from_, IBV_ACCESS_LOCAL_WRITE));
  here_ = TRY(make_pair(domain_.get(), queue_.get()));
  there_ = TRY(make_pair(domain_.get(), queue_.get()));
  TRY(connect(here_.get(), there_->qp_num, place));
  return connect(there_.get(), here_->qp_num, place);
}

Status Probe::connect(ibv_qp* pair, uint32_t peer, const Place& place) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    return Error(EIO, "a queue pair cannot be connected");
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.dlid = place.port.lid;
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid = place.gid;
  attributes.ah_attr.grh.sgid_index = place.gid_index;
  attributes.ah_attr.grh.hop_limit = 1;
  constexpr int kReady = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(pair, &attributes, kReady) != 0) return Error(EIO, "a queue pair cannot be connected");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = limits::kAckTimeout;
  attributes.retry_cnt = limits::kRetryCount;
  attributes.rnr_retry = limits::kRnrRetryCount;
  attributes.max_rd_atomic = 1;
  constexpr int kSend =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  if (ibv_modify_qp(pair, &attributes, kSend) != 0) return Error(EIO, "a queue pair cannot be connected");
  return {};
}

// One work request and its completion.
Status Probe::post(ibv_qp* pair, ibv_send_wr request) const {
  request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(pair, &request, &bad) != 0) return Error(EIO, "a work request is not taken");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  ibv_wc completion{};
  int got = 0;
  while ((got = ibv_poll_cq(queue_.get(), 1, &completion)) == 0) {
    if (std::chrono::steady_clock::now() > deadline) return Error(ETIMEDOUT, "a work request does not complete");
    std::this_thread::yield();
  }
  if (got < 0 || completion.status != IBV_WC_SUCCESS) return Error(EACCES, "a work request fails");
  return {};
}

Status Probe::bind() {
  window_.reset(ibv_alloc_mw(domain_.get(), IBV_MW_TYPE_2));
  if (!window_) return Error(ENOMEM, "no memory window");
  key_ = ibv_inc_rkey(window_->rkey);
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = window_.get();
  request.bind_mw.rkey = key_;
  request.bind_mw.bind_info = {region_.get(), reinterpret_cast<uint64_t>(memory_.data()), kWindowBytes,
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
  return post(there_.get(), request);
}

Status Probe::write(uint64_t offset) const {
  ibv_sge slice{reinterpret_cast<uint64_t>(from_.data()), static_cast<uint32_t>(from_.size()), from_region_->lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.sg_list = &slice;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(memory_.data()) + offset;
  request.wr.rdma.rkey = key_;
  return post(here_.get(), request);
}

Status Probe::refuses_beyond(ibv_context* device) {
  TRY(make(device));
  TRY(bind());
  from_.fill(std::byte{0xA5});
  const bool refused = write(kWindowBytes).code() == EACCES && memory_[kWindowBytes] == std::byte{};
  return refused ? Status() : Status(Error(EIO, "they do not keep to their bounds"));
}

Status Probe::refuses_after_invalidation(ibv_context* device) {
  TRY(make(device));
  TRY(bind());
  from_.fill(std::byte{0xA5});
  TRY(write(0));
  if (std::memcmp(memory_.data(), from_.data(), from_.size()) != 0) return Error(EIO, "they do not carry a write");
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.invalidate_rkey = key_;
  TRY(post(there_.get(), invalidate));
  from_.fill(std::byte{0x5A});
  if (write(0).code() != EACCES) return Error(EIO, "they are open after their invalidation");
  if (memory_[0] != std::byte{0xA5}) return Error(EIO, "a write lands after their invalidation");
  return {};
}

}  // namespace

Status try_windows(ibv_context* device) {
  TRY(std::make_unique<Probe>()->refuses_beyond(device));
  return std::make_unique<Probe>()->refuses_after_invalidation(device);
}

}  // namespace brickfs::verbs
