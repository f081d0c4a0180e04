// SPDX-License-Identifier: Apache-2.0
#include "server/verbs/access.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/random.h"
#include "transport/brick/limits.h"
#include "transport/brick/proof.h"

namespace brickfs {
namespace {

constexpr auto kOfferLasts = 2 * limits::kConnectTimeout;
constexpr size_t kRevokedAtOnce = 64;

}  // namespace

Result<VerbsDomain*> VerbsAccess::domain_of(ibv_context* device) {
  auto& domain = domains_[device];
  if (!domain) {
    const VerbsDevice* const traits = TRY(devices_.find(device));
    domain = TRY(VerbsDomain::make(device, *traits, devices_.memory()));
  }
  return domain.get();
}

size_t VerbsAccess::reach(const std::byte* from) const { return bytes_to_slab_end(devices_.memory(), from); }

Status VerbsAccess::extend(Grant& grant, size_t slot) {
  VerbsQueuePair& pair = *slots_[slot].pair;
  VerbsDomain& domain = pair.domain();
  if (domain.traits().windows) {
    auto window = pair.bind(grant.memory, grant.access);
    if (!window.ok() && window.error().is(ENOTCONN)) return {};  // the client notices by itself
    if (!window.ok()) return window.error();
    grant.keys[slot] = (*window)->key;
    grant.owned.windows[slot] = *std::move(window);
    return {};
  }
  auto& region = grant.owned.regions[slots_[slot].pair->device()];
  if (!region) region = TRY(domain.expose(grant.memory, grant.access));
  grant.keys[slot] = region->rkey;
  return {};
}

// Some at a time: whoever wants to know of a ticket, the thread that accepts connections, waits for the mutex.
void VerbsAccess::revoke(std::span<const uint32_t> keys) {
  while (!keys.empty()) {
    const auto some = keys.first(std::min(keys.size(), kRevokedAtOnce));
    revoke_some(some);
    keys = keys.subspan(some.size());
  }
}

void VerbsAccess::revoke_some(std::span<const uint32_t> keys) {
  MutexLock lock(mutex_);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    std::vector<const VerbsWindow*> windows;
    for (const uint32_t key : keys) {
      if (const auto& window = grants_.at(key).owned.windows[slot]) windows.push_back(window.get());
    }
    if (!windows.empty() && slots_[slot].pair && !slots_[slot].pair->unbind(windows)) destroy_pair(slot);
  }
  for (const uint32_t key : keys) grants_.erase(key);  // windows and regions go
}

Result<calls::Answer> VerbsAccess::offer(const calls::Request& request) {
  if (!std::holds_alternative<calls::QueuePair>(request)) return Error(EPROTO, "no such call");
  return calls::to_answer(offer_queue_pair());
}

Result<calls::QueuePairOffer> VerbsAccess::offer_queue_pair() {
  MutexLock lock(mutex_);
  if (is_over()) return Error(ENOTCONN, "the session is cut off");
  const auto now = verbs::Clock::now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.pair || (slot.ticket && now - slot.offered_at < kOfferLasts)) continue;
    slot.ticket.emplace();
    fill_random(*slot.ticket);
    slot.offered_at = now;
    return calls::QueuePairOffer{static_cast<uint32_t>(i), *slot.ticket};
  }
  return Error(ENOBUFS, "too many queue pairs");
}

bool VerbsAccess::offered(const verbs::Ticket& ticket) const {
  MutexLock lock(mutex_);
  return !is_over() &&
         std::ranges::any_of(slots_, [&](const Slot& slot) { return slot.ticket && same_bytes(*slot.ticket, ticket); });
}

Status VerbsAccess::admit(const verbs::Ticket& ticket, verbs::CmIdPtr id, const rdma_conn_param& asked) {
  MutexLock lock(mutex_);
  const auto slot =
      std::ranges::find_if(slots_, [&](const Slot& at) { return at.ticket && same_bytes(*at.ticket, ticket); });
  if (is_over() || slot == slots_.end()) return Error(EACCES, "no such ticket");
  slot->ticket.reset();
  VerbsDomain* const domain = TRY(domain_of(id->verbs));
  slot->pair = TRY(VerbsQueuePair::accept(std::move(id), *domain, asked));
  return extend_all(static_cast<size_t>(slot - slots_.begin()));
}

void VerbsAccess::destroy_pair(size_t slot) {
  slots_[slot].ticket.reset();
  if (!slots_[slot].pair) return;
  slots_[slot].pair->stop();
  for (auto& [key, grant] : grants_) {
    grant.owned.windows[slot].reset();
    grant.keys[slot] = 0;
  }
  slots_[slot].pair.reset();
}

}  // namespace brickfs
