// SPDX-License-Identifier: Apache-2.0
// Owners of verbs and rdma_cm objects. A destroy that fails is a bug of ours (something still uses the object): it is
// logged as one. Members that use an object stand behind it, so that they go first.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <memory>

namespace brickfs::verbs {

struct Destroy {
  void operator()(ibv_pd* pd) const;
  void operator()(ibv_mr* region) const;
  void operator()(ibv_mw* window) const;
  void operator()(ibv_cq* queue) const;
  void operator()(ibv_comp_channel* channel) const;
  void operator()(ibv_qp* pair) const;
  void operator()(rdma_cm_id* id) const;  // and the queue pair made on it
  void operator()(rdma_event_channel* channel) const;
  void operator()(rdma_cm_event* event) const;  // acknowledges it
};

using PdPtr = std::unique_ptr<ibv_pd, Destroy>;
using MrPtr = std::unique_ptr<ibv_mr, Destroy>;
using MwPtr = std::unique_ptr<ibv_mw, Destroy>;
using CqPtr = std::unique_ptr<ibv_cq, Destroy>;
using CompChannelPtr = std::unique_ptr<ibv_comp_channel, Destroy>;
using QpPtr = std::unique_ptr<ibv_qp, Destroy>;  // one that rdma_cm did not make
using CmIdPtr = std::unique_ptr<rdma_cm_id, Destroy>;
using CmChannelPtr = std::unique_ptr<rdma_event_channel, Destroy>;
using CmEventPtr = std::unique_ptr<rdma_cm_event, Destroy>;

}  // namespace brickfs::verbs
