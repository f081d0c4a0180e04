// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_ptr.h"

#include <cstring>

#include "transport/base/log.h"
#include "transport/verbs/deferred_destroy.h"

namespace brickfs::verbs {
namespace {

void expect_destroyed(int code, const char* call) {
  if (code != 0) log::error("bug: {} failed: {}", call, std::strerror(code > 0 ? code : errno));
}

}  // namespace

void Destroy::operator()(ibv_pd* pd) const { expect_destroyed(ibv_dealloc_pd(pd), "ibv_dealloc_pd"); }
void Destroy::operator()(ibv_mr* region) const { expect_destroyed(ibv_dereg_mr(region), "ibv_dereg_mr"); }
void Destroy::operator()(ibv_mw* window) const { expect_destroyed(ibv_dealloc_mw(window), "ibv_dealloc_mw"); }
void Destroy::operator()(ibv_cq* queue) const { expect_destroyed(ibv_destroy_cq(queue), "ibv_destroy_cq"); }
void Destroy::operator()(ibv_comp_channel* channel) const {
  expect_destroyed(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
}
void Destroy::operator()(ibv_qp* pair) const { expect_destroyed(ibv_destroy_qp(pair), "ibv_destroy_qp"); }

void Destroy::operator()(rdma_cm_id* id) const { DeferredDestroy::of_process().end(id); }
void Destroy::operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
void Destroy::operator()(rdma_cm_event* event) const {
  expect_destroyed(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

}  // namespace brickfs::verbs
