// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/queue_pair.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "transport/base/log.h"

namespace brickfs::verbs {
namespace {

constexpr uint32_t kInlineBytes = 256;  // asked for; a device may give more, or none
constexpr std::chrono::seconds kDrainPatience{2};
constexpr int kPollEntries = 16;

uint32_t slices_of_pair(const DeviceFacts& facts) {
  return std::min<uint32_t>(facts.slices, limits::kSlicesPerTransfer);
}

}  // namespace

const char* describe(ibv_wc_status status) { return ibv_wc_status_str(status); }

Result<std::shared_ptr<CompletionChannel>> CompletionChannel::make(ibv_context* device) {
  auto channel = TRY(make_completion_channel(device));
  return std::shared_ptr<CompletionChannel>(new CompletionChannel(std::move(channel)));
}

void CompletionChannel::take(const std::function<void(size_t pair)>& disarmed) {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) {
    ibv_ack_cq_events(queue, 1);
    disarmed(reinterpret_cast<uintptr_t>(context));  // as QueuePair::make() has it
  }
}

// Work requests being put together, linked as they are posted.
struct QueuePair::Chain {
  std::array<ibv_send_wr, limits::kPostChain> requests;
  std::array<ibv_sge, limits::kPostChain * limits::kSlicesPerTransfer> slices;
  uint64_t first;  // its place among all that were ever posted
  size_t count = 0;
  size_t slice_count = 0;
  bool keyless = false;  // the next part's handle has no key here: the brick found the queue pair dead

  explicit Chain(uint64_t place) : first(place) {}

  void add_slice(const std::byte* data, uint32_t length, uint32_t key) {
    slices[slice_count++] = {reinterpret_cast<uint64_t>(data), length, key};
  }
};

Result<QueuePair::Opened> QueuePair::make(CmId id, uint32_t number, ClientDevice& device,
                                          ibv_comp_channel* completions) {
  Opened opened;
  opened.number = number;
  void* const context = reinterpret_cast<void*>(uintptr_t{number});
  opened.queue.reset(ibv_create_cq(id.id->verbs, limits::kQueuePairDepth + 1, context, completions, 0));
  if (!opened.queue) return Error(ENOMEM, "the RDMA device has no completion queue left");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = opened.queue.get();
  attributes.recv_cq = opened.queue.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {limits::kQueuePairDepth, 1, slices_of_pair(device.facts()), 1, kInlineBytes};
  if (rdma_create_qp(id.id.get(), device.domain(), &attributes) != 0) {
    attributes.cap = {limits::kQueuePairDepth, 1, slices_of_pair(device.facts()), 1, 0};
    if (rdma_create_qp(id.id.get(), device.domain(), &attributes) != 0) {
      return Error(ENOMEM, "the RDMA device has no queue pair left");
    }
  }
  opened.inline_bytes = attributes.cap.max_inline_data;
  opened.id = std::move(id);
  return opened;
}

QueuePair::QueuePair(Opened opened, ClientDevice& device, std::shared_ptr<CompletionChannel> completions,
                     const onesided::LocalMemory& memory)
    : onesided::QueuePair(opened.number, device, std::move(completions), opened.inline_bytes),
      device_(device),
      memory_(memory),
      flush_address_(opened.reply.flush_address),
      flush_key_(opened.reply.flush_key),
      ring_(limits::kQueuePairDepth),
      flush_region_(ibv_reg_mr(device.domain(), flush_into_.data(), flush_into_.size(), IBV_ACCESS_LOCAL_WRITE)),
      queue_(std::move(opened.queue)),
      id_(std::move(opened.id.id)) {
  if (!flush_region_) fail();
}

// False: a staging buffer is missing.
bool QueuePair::prepare_one(Part part, Chain& chain) {
  ibv_send_wr& request = chain.requests[chain.count];
  request = {};
  const size_t first = chain.slice_count;
  if (part.way == Part::Way::kFlush) {
    request.opcode = IBV_WR_RDMA_READ;
    request.wr.rdma.remote_addr = flush_address_;
    request.wr.rdma.rkey = flush_key_;
    chain.add_slice(flush_into_.data(), kFlushBytes, flush_region_->lkey);
  } else {
    const Transfer& transfer = *part.transfer;
    request.opcode = transfer.direction == Direction::kRead ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = part.mapping->handle.remote_address + transfer.offset + part.offset;
    request.wr.rdma.rkey = part.mapping->keys[number()].load(std::memory_order_relaxed);
    if (request.wr.rdma.rkey == 0) {
      chain.keyless = true;
      return false;
    }
    // Cut when there was no queue pair yet that takes so little.
    if (part.way == Part::Way::kInline && part.length_bytes > inline_bytes()) part.way = Part::Way::kStaged;
    if (part.way == Part::Way::kInline) request.send_flags |= IBV_SEND_INLINE;
    if (part.way == Part::Way::kStaged) {
      if (!take_staging(part)) return false;
      const onesided::StagingPool& staging = device_.staging();
      chain.add_slice(staging.data(part.staging), part.length_bytes, static_cast<uint32_t>(staging.key()));
    } else {
      const bool inlined = part.way == Part::Way::kInline;
      onesided::for_each_piece(part, [&](const LocalSlice& slice, const std::byte* data, uint32_t length) {
        const uint64_t key = inlined ? 0 : memory_.key_of(slice, device_.number());
        chain.add_slice(data, length, static_cast<uint32_t>(key));
      });
    }
  }
  request.sg_list = &chain.slices[first];
  request.num_sge = static_cast<int>(chain.slice_count - first);
  part_at(chain.first + chain.count++) = part;
  return true;
}

size_t QueuePair::prepare(std::span<const Part> parts, size_t room, Chain& chain) {
  room = std::min({room, parts.size(), chain.requests.size()});
  while (chain.count < room && prepare_one(parts[chain.count], chain)) {
  }
  return chain.count;
}

Result<size_t> QueuePair::post(std::span<const Part> parts) {
  MutexLock lock(post_mutex_);
  if (failed()) return Error(ENOTCONN, "the queue pair has failed");
  const uint64_t tail = posted_.load(std::memory_order_relaxed);
  Chain chain(tail);
  const size_t count = prepare(parts, ring_.size() - (tail - completed_.load(std::memory_order_acquire)), chain);
  if (count == 0 && chain.keyless) {
    failed_.store(true, std::memory_order_release);
    break_pair(id_->qp);
    return Error(ENOTCONN, "the brick has given the queue pair up");
  }
  if (count == 0) return size_t{0};
  for (size_t i = 0; i < count; ++i) {
    chain.requests[i].wr_id = tail + i;
    chain.requests[i].next = i + 1 < count ? &chain.requests[i + 1] : nullptr;
    if (chain.requests[i].opcode == IBV_WR_RDMA_WRITE) writes_.fetch_add(1);
  }
  chain.requests[count - 1].send_flags |= IBV_SEND_SIGNALED;
  posted_.store(tail + count, std::memory_order_release);  // before the device can answer
  ibv_send_wr* bad = nullptr;
  const int code = ibv_post_send(id_->qp, chain.requests.data(), &bad);
  if (code == 0) return count;
  // The device took those in front of `bad`; they, and only they, will come back.
  const auto taken = static_cast<size_t>(bad - chain.requests.data());
  log::warn("RDMA device {}: a work request is not taken: {}", device_.facts().name, std::strerror(code));
  for (size_t i = taken; i < count; ++i) {
    give_staging_back(part_at(tail + i));
  }
  posted_.store(tail + taken, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
  break_pair(id_->qp);
  return taken;
}

void QueuePair::take(std::span<const ibv_wc> completions, Parts& done) {
  uint64_t head = completed_.load(std::memory_order_relaxed);
  for (const ibv_wc& completion : completions) {
    returned_ = std::max(returned_, completion.wr_id + 1);
    if (completion.status == IBV_WC_SUCCESS) {
      for (; head <= completion.wr_id; ++head) done.push_back(part_at(head));
      continue;
    }
    if (failed_.exchange(true, std::memory_order_acq_rel)) continue;
    log::warn("an RDMA work request on {} failed: {}", device_.facts().name, describe(completion.status));
  }
  completed_.store(head, std::memory_order_release);
}

void QueuePair::poll(Parts& done) {
  if (idle() || !poll_mutex_.try_lock()) return;
  std::array<ibv_wc, kPollEntries> completions;
  int got = 0;
  while (!idle() && (got = ibv_poll_cq(queue_.get(), kPollEntries, completions.data())) > 0) {
    take(std::span(completions).first(static_cast<size_t>(got)), done);
  }
  poll_mutex_.unlock();
}

void QueuePair::arm() {
  if (std::exchange(armed_, true)) return;
  if (failed()) return;  // what is there is drain()'s, which may take a while
  MutexLock lock(poll_mutex_);
  if (id_) ibv_req_notify_cq(queue_.get(), 0);
}

void QueuePair::fail() {
  MutexLock lock(post_mutex_);
  failed_.store(true, std::memory_order_release);
  if (id_) break_pair(id_->qp);
}

Parts QueuePair::drain(Parts& done) {
  fail();
  MutexLock lock(poll_mutex_);
  if (!id_) return {};  // it has been already
  const uint64_t tail = posted_.load(std::memory_order_acquire);
  const auto deadline = Clock::now() + kDrainPatience;
  while (returned_ < tail && Clock::now() < deadline) {
    std::array<ibv_wc, kPollEntries> completions;
    const int got = ibv_poll_cq(queue_.get(), kPollEntries, completions.data());
    if (got < 0) break;
    if (got == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    take(std::span(completions).first(static_cast<size_t>(got)), done);
  }
  {
    MutexLock posting(post_mutex_);
    id_.reset();  // the queue pair goes: whatever had not come back never touches memory again
    queue_.reset();
    flush_region_.reset();
  }
  Parts undone;
  for (uint64_t at = completed_.load(std::memory_order_relaxed); at < tail; ++at) undone.push_back(part_at(at));
  completed_.store(tail, std::memory_order_release);
  return undone;
}

}  // namespace brickfs::verbs
