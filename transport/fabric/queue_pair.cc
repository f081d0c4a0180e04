// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/queue_pair.h"

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs::fabric {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEndpointDrainPatience{200};
constexpr size_t kPollEntries = 16;

// A queue that tells of the completions of one queue pair.
class QueueEvents final : public onesided::CompletionEvents {
 public:
  explicit QueueEvents(std::shared_ptr<CompletionQueue> queue) : queue_(std::move(queue)) {}
  int fd() const override { return queue_->fd(); }
  void take(const std::function<void(size_t)>&) override {}  // who polls the queue takes them

 private:
  const std::shared_ptr<CompletionQueue> queue_;
};

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::open(const calls::EndpointOffer& offer, ClientDevice& device,
                                                   const onesided::LocalMemory& memory) {
  const std::shared_ptr<Domain>& domain = device.domain();
  Endpoint endpoint = TRY(Endpoint::open(domain, limits::kQueuePairDepth + 1));
  fi_addr_t peer = FI_ADDR_UNSPEC;
  if (fi_av_insert(domain->addresses(), offer.name.data(), 1, &peer, 0, nullptr) != 1)
    return Error(EADDRNOTAVAIL, "the brick's endpoint has an address that the fabric does not know");
  std::unique_ptr<QueuePair> made(new QueuePair(offer, device, std::move(endpoint), peer, memory));
  if (device.traits().registers) made->flush_region_ = TRY(device.register_memory(made->flush_into_));
  return made;
}

QueuePair::QueuePair(const calls::EndpointOffer& offer, ClientDevice& device, Endpoint endpoint, fi_addr_t peer,
                     const onesided::LocalMemory& memory)
    : onesided::QueuePair(offer.pair, device, std::make_shared<QueueEvents>(endpoint.queue), 0),
      device_(device),
      memory_(memory),
      queue_(std::move(endpoint.queue)),
      peer_(peer),
      virtual_addresses_(offer.virtual_addresses),
      high_keys_(uint64_t{offer.high_keys} << 32),
      flush_address_(offer.flush_address),
      flush_key_(high_keys_ | offer.flush_key),
      slots_(std::min<size_t>(limits::kQueuePairDepth, device.domain()->provider().info->tx_attr->size)),
      endpoint_(std::move(endpoint.endpoint)) {
  for (uint32_t number = 0; number < slots_.size(); ++number) free_.push_back(number);
}

QueuePair::~QueuePair() {
  endpoint_.reset();
  fi_addr_t peer = peer_;
  fi_av_remove(device_.domain()->addresses(), &peer, 1, 0);
}

void QueuePair::give_back(Slot& slot) {
  slot.taken = false;
  MutexLock lock(free_mutex_);
  free_.push_back(static_cast<uint32_t>(&slot - slots_.data()));
}

ssize_t QueuePair::post_one(const Part& part, Slot& slot) {
  std::array<iovec, limits::kSlicesPerTransfer> local;
  std::array<void*, limits::kSlicesPerTransfer> descriptors;
  size_t count = 0;
  const auto add = [&](std::byte* data, size_t length, uint64_t key) {
    descriptors[count] = reinterpret_cast<void*>(key);
    local[count++] = {data, length};
  };
  fi_rma_iov remote{flush_address_, flush_into_.size(), flush_key_};
  bool writes = false;
  if (part.way == Part::Way::kFlush) {
    add(flush_into_.data(), flush_into_.size(), flush_region_.key);
  } else {
    const Transfer& transfer = *part.transfer;
    writes = transfer.direction == Direction::kWrite;
    const uint64_t base = virtual_addresses_ ? part.mapping->handle.remote_address : 0;
    remote = {base + transfer.offset + part.offset, part.length_bytes,
              high_keys_ | part.mapping->keys[number()].load(std::memory_order_relaxed)};
    if (part.way == Part::Way::kStaged) {
      add(device_.staging().data(part.staging), part.length_bytes, device_.staging().key());
    } else {
      const bool registers = device_.traits().registers;
      onesided::for_each_piece(part, [&](const LocalSlice& slice, std::byte* data, uint32_t length) {
        add(data, length, registers ? memory_.key_of(slice, device_.number()) : 0);
      });
    }
  }
  fi_msg_rma message{};
  message.msg_iov = local.data();
  message.desc = descriptors.data();
  message.iov_count = count;
  message.addr = peer_;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &slot.context;
  const uint64_t delivers = device_.domain()->provider().delivers() ? FI_DELIVERY_COMPLETE : 0;
  return writes ? fi_writemsg(endpoint_.get(), &message, FI_COMPLETION | delivers)
                : fi_readmsg(endpoint_.get(), &message, FI_COMPLETION);
}

// Nothing has been taken for so long, while nothing was under way that could make room.
bool QueuePair::give_up_waiting() {
  const auto now = Clock::now();
  if (!idle() || refused_since_ == Clock::time_point()) {
    refused_since_ = now;
    return false;
  }
  return now - refused_since_ > limits::kConnectTimeout;
}

Result<size_t> QueuePair::post(std::span<const Part> parts) {
  MutexLock lock(post_mutex_);
  const auto end = [&](const char* why) {
    failed_.store(true, std::memory_order_release);
    log::warn("a queue pair on {} has failed: {}", device_.traits().name, why);
    return Error(ENOTCONN, "the queue pair has failed");
  };
  for (size_t posted = 0; posted < parts.size(); ++posted) {
    if (failed()) return posted > 0 ? Result<size_t>(posted) : Error(ENOTCONN, "the queue pair has failed");
    Part part = parts[posted];
    const bool keyed = part.way == Part::Way::kFlush || part.mapping->keys[number()].load() != 0;
    if (!keyed && posted > 0) return posted;
    if (!keyed) return end("the brick has given it up");
    MutexLock choosing(free_mutex_);
    if (free_.empty()) return posted;
    Slot& slot = slots_[free_.back()];
    free_.pop_back();
    choosing.unlock();
    if (part.way == Part::Way::kStaged && !take_staging(part)) {
      give_back(slot);
      return posted;
    }
    slot.part = part;
    slot.taken = true;
    const bool counts = part.way != Part::Way::kFlush && part.transfer->direction == Direction::kWrite &&
                        !device_.domain()->provider().delivers();
    if (counts) writes_.fetch_add(1);
    posted_.fetch_add(1, std::memory_order_release);  // before it can complete
    const ssize_t code = post_one(part, slot);
    if (code == 0) {
      refused_since_ = {};
      continue;
    }
    posted_.fetch_sub(1, std::memory_order_release);
    if (counts) writes_.fetch_sub(1);
    give_staging_back(part);
    give_back(slot);
    if (code == -FI_EAGAIN && !give_up_waiting()) return posted;
    const Error error = end(code == -FI_EAGAIN ? "the brick's endpoint does not answer"
                                               : library().error_text(static_cast<int>(-code)));
    return posted > 0 ? Result<size_t>(posted) : error;
  }
  return parts.size();
}

void QueuePair::take(std::span<const fi_cq_entry> completions, Parts& done) {
  for (const fi_cq_entry& completion : completions) {
    const auto offset = static_cast<size_t>(static_cast<std::byte*>(completion.op_context) -
                                            reinterpret_cast<std::byte*>(slots_.data()));
    if (completion.op_context == nullptr || offset / sizeof(Slot) >= slots_.size()) continue;
    Slot& slot = slots_[offset / sizeof(Slot)];
    done.push_back(slot.part);
    give_back(slot);
    completed_.fetch_add(1, std::memory_order_release);
  }
}

// False: there is none. What it was of stays under way until drain().
bool QueuePair::take_error() {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue_->get(), &entry, 0) <= 0) return false;
  if (!failed_.exchange(true, std::memory_order_acq_rel))
    log::warn("a work request on {} failed: {}", device_.traits().name, library().error_text(entry.err));
  return true;
}

void QueuePair::poll(Parts& done) {
  if (!poll_mutex_.try_lock()) return;
  std::array<fi_cq_entry, kPollEntries> completions;
  while (endpoint_) {
    const ssize_t got = fi_cq_read(queue_->get(), completions.data(), completions.size());
    if (got > 0) {
      take(std::span(completions).first(static_cast<size_t>(got)), done);
    } else if (got != -FI_EAVAIL || !take_error()) {
      break;
    }
  }
  poll_mutex_.unlock();
}

void QueuePair::arm() {
  if (failed()) return;
  MutexLock lock(poll_mutex_);
  if (endpoint_) queue_->may_sleep();
}

void QueuePair::fail() {
  MutexLock lock(post_mutex_);
  failed_.store(true, std::memory_order_release);
}

Parts QueuePair::drain(Parts& done) {
  fail();
  const auto deadline = Clock::now() + kEndpointDrainPatience;
  while (!idle() && Clock::now() < deadline) {
    poll(done);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  MutexLock polling(poll_mutex_);
  MutexLock posting(post_mutex_);
  endpoint_.reset();  // whatever had not come back never touches memory again
  flush_region_ = {};
  Parts undone;
  for (Slot& slot : slots_) {
    if (slot.taken) undone.push_back(slot.part);
    slot.taken = false;
  }
  completed_.store(posted_.load());
  return undone;
}

}  // namespace brickfs::fabric
