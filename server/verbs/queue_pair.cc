// SPDX-License-Identifier: Apache-2.0
#include "server/verbs/queue_pair.h"

#include <algorithm>
#include <array>
#include <thread>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr size_t kWorkRequests = 64;  // posted together at most
// Bindings are done by the device on its own: what takes so long does not come back.
constexpr std::chrono::seconds kPatience{1};

}  // namespace

Result<std::unique_ptr<VerbsQueuePair>> VerbsQueuePair::accept(verbs::CmIdPtr id, VerbsDomain& domain,
                                                               const rdma_conn_param& asked) {
  std::unique_ptr<VerbsQueuePair> pair(new VerbsQueuePair(domain));
  pair->queue_.reset(ibv_create_cq(id->verbs, kWorkRequests + 1, nullptr, nullptr, 0));
  if (!pair->queue_) return Error(ENOMEM, "the RDMA device has no completion queue left");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = pair->queue_.get();
  attributes.recv_cq = pair->queue_.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = kWorkRequests;
  attributes.cap.max_recv_wr = 1;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_sge = 1;
  if (rdma_create_qp(id.get(), domain.domain(), &attributes) != 0) {
    return Error(ENOMEM, "the RDMA device has no queue pair left");
  }
  pair->id_ = std::move(id);  // the pair goes before the queue
  verbs::set_ack_timeout(pair->id_.get());
  verbs::ConnectReply reply;
  reply.flags = domain.traits().windows ? verbs::kReplyWindows : 0;
  reply.flush_address = domain.flush_address();
  reply.flush_key = domain.flush_key();
  rdma_conn_param parameters = verbs::connection_parameters(domain.traits().facts, &asked);
  parameters.private_data = &reply;
  parameters.private_data_len = sizeof(reply);
  if (rdma_accept(pair->id_.get(), &parameters) != 0) return errno_error("rdma_accept");
  return pair;
}

Status VerbsQueuePair::post_and_wait(ibv_send_wr& chain, size_t count) {
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp, &chain, &bad) != 0) return Error(ENOTCONN, "the queue pair is gone");
  const auto deadline = verbs::Clock::now() + kPatience;
  size_t done = 0;
  bool failed = false;
  while (done < count) {
    std::array<ibv_wc, 16> completions;
    const int got = ibv_poll_cq(queue_.get(), static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < got; ++i) failed = failed || completions[i].status != IBV_WC_SUCCESS;
    done += static_cast<size_t>(std::max(got, 0));
    if (got < 0 || (got == 0 && verbs::Clock::now() > deadline))
      return Error(ENOTCONN, "the queue pair does not answer");
    if (got == 0) std::this_thread::yield();
  }
  return failed ? Status(Error(ENOTCONN, "the queue pair is gone")) : Status();
}

Result<std::unique_ptr<VerbsWindow>> VerbsQueuePair::bind(std::span<std::byte> memory, Access access) {
  ibv_mr* const slab = TRY(domain_.slab_of(memory));
  auto made = std::make_unique<VerbsWindow>();
  made->window.reset(ibv_alloc_mw(domain_.domain(), IBV_MW_TYPE_2));
  if (!made->window) return Error(ENOMEM, "the RDMA device has no memory window left");
  made->key = ibv_inc_rkey(made->window->rkey);
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw.mw = made->window.get();
  request.bind_mw.rkey = made->key;
  request.bind_mw.bind_info.mr = slab;
  request.bind_mw.bind_info.addr = reinterpret_cast<uint64_t>(memory.data());
  request.bind_mw.bind_info.length = memory.size();
  request.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
  if (access == Access::kReadWrite) request.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_REMOTE_WRITE;
  TRY(post_and_wait(request, 1));
  return made;
}

bool VerbsQueuePair::unbind(std::span<const VerbsWindow* const> windows) {
  while (!windows.empty()) {
    std::array<ibv_send_wr, kWorkRequests> chain{};
    const size_t count = std::min(windows.size(), chain.size());
    for (size_t i = 0; i < count; ++i) {
      chain[i].opcode = IBV_WR_LOCAL_INV;
      chain[i].send_flags = IBV_SEND_SIGNALED;
      chain[i].invalidate_rkey = windows[i]->key;
      chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
    }
    if (!post_and_wait(chain[0], count).ok()) return false;
    windows = windows.subspan(count);
  }
  return true;
}

}  // namespace brickfs
