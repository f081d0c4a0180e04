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

VerbsAccess::VerbsAccess(VerbsDevices& devices, uint32_t first_key) : devices_(devices), next_key_(first_key) {}

VerbsAccess::~VerbsAccess() {
  MutexLock lock(mutex_);
  for (size_t slot = 0; slot < slots_.size(); ++slot) destroy_queue_pair(slot);
  grants_.clear();
}

Result<VerbsDomain*> VerbsAccess::domain_of(ibv_context* device) {
  auto& domain = domains_[device];
  if (!domain) {
    const VerbsDevice* const traits = TRY(devices_.find(device));
    domain = TRY(VerbsDomain::make(device, *traits, devices_.memory()));
  }
  return domain.get();
}

size_t VerbsAccess::reach(const std::byte* from) const { return bytes_to_slab_end(devices_.memory(), from); }

// Makes the grant's memory reachable through the queue pair in `slot`.
Status VerbsAccess::extend(Grant& grant, size_t slot) {
  VerbsQueuePair& pair = *slots_[slot].pair;
  VerbsDomain& domain = pair.domain();
  if (domain.traits().windows) {
    auto window = pair.bind(grant.memory, grant.access);
    if (!window.ok() && window.error().is(ENOTCONN)) return {};  // the client notices by itself
    if (!window.ok()) return window.error();
    grant.keys[slot] = (*window)->key;
    grant.windows[slot] = *std::move(window);
    return {};
  }
  auto& region = grant.regions[slots_[slot].pair->device()];
  if (!region) region = TRY(domain.expose(grant.memory, grant.access));
  grant.keys[slot] = region->rkey;
  return {};
}

Status VerbsAccess::extend_all(size_t slot) {
  for (auto& [key, grant] : grants_) TRY(extend(grant, slot));
  return {};
}

Result<uint32_t> VerbsAccess::grant(std::span<std::byte> memory, Access access) {
  MutexLock lock(mutex_);
  if (over_) return Error(ENOTCONN, "the session is cut off");
  Grant grant;
  grant.memory = memory;
  grant.access = access;
  while (next_key_ == 0 || grants_.contains(next_key_)) ++next_key_;
  const uint32_t key = next_key_++;
  const auto place = grants_.emplace(key, std::move(grant)).first;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].pair) continue;
    const Status extended = extend(place->second, slot);
    if (extended.ok()) continue;
    lock.unlock();
    revoke({&key, 1});
    return extended.error();
  }
  return key;
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
      if (const auto& window = grants_.at(key).windows[slot]) windows.push_back(window.get());
    }
    if (!windows.empty() && slots_[slot].pair && !slots_[slot].pair->unbind(windows)) destroy_queue_pair(slot);
  }
  for (const uint32_t key : keys) grants_.erase(key);  // windows and regions go
}

Result<calls::Answer> VerbsAccess::call(const calls::Request& request) {
  return std::visit(calls::Overloaded{
                        [&](const calls::QueuePair&) { return calls::to_answer(offer_queue_pair()); },
                        [&](const calls::Detach& call) {
                          detach(call.pairs);
                          return calls::to_answer(Status());
                        },
                        [&](const calls::Keys& call) { return calls::to_answer(Result(keys_of(call))); },
                        [](const auto&) -> Result<calls::Answer> { return Error(EPROTO, "no such call"); },
                    },
                    request);
}

Result<calls::QueuePairOffer> VerbsAccess::offer_queue_pair() {
  MutexLock lock(mutex_);
  if (over_) return Error(ENOTCONN, "the session is cut off");
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
  return !over_ &&
         std::ranges::any_of(slots_, [&](const Slot& slot) { return slot.ticket && same_bytes(*slot.ticket, ticket); });
}

Status VerbsAccess::admit(const verbs::Ticket& ticket, verbs::CmIdPtr id, const rdma_conn_param& asked) {
  MutexLock lock(mutex_);
  const auto slot =
      std::ranges::find_if(slots_, [&](const Slot& at) { return at.ticket && same_bytes(*at.ticket, ticket); });
  if (over_ || slot == slots_.end()) return Error(EACCES, "no such ticket");
  slot->ticket.reset();
  VerbsDomain* const domain = TRY(domain_of(id->verbs));
  slot->pair = TRY(VerbsQueuePair::accept(std::move(id), *domain, asked));
  const auto number = static_cast<size_t>(slot - slots_.begin());
  const Status extended = extend_all(number);
  if (!extended.ok()) destroy_queue_pair(number);
  return extended;
}

void VerbsAccess::destroy_queue_pair(size_t slot) {
  if (!slots_[slot].pair) return;
  slots_[slot].pair->stop();
  for (auto& [key, grant] : grants_) {
    grant.windows[slot].reset();
    grant.keys[slot] = 0;
  }
  slots_[slot].pair.reset();
}

void VerbsAccess::detach(uint32_t pairs) {
  MutexLock lock(mutex_);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if ((pairs >> slot & 1) == 0) continue;
    slots_[slot].ticket.reset();
    destroy_queue_pair(slot);
  }
}

void VerbsAccess::cut_off() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  detach(UINT32_MAX);
}

// One that was unmapped meanwhile has no keys.
void VerbsAccess::add_keys(calls::Mapped& mapped) const {
  MutexLock lock(mutex_);
  for (Handle& handle : mapped.handles) {
    const auto grant = grants_.find(handle.remote_key);
    mapped.keys.push_back(grant == grants_.end() ? calls::QueuePairKeys{} : grant->second.keys);
    // As the device has it: not that of the table.
    handle.remote_address = grant == grants_.end() ? 0 : reinterpret_cast<uint64_t>(grant->second.memory.data());
  }
}

calls::KeyPage VerbsAccess::keys_of(const calls::Keys& call) const {
  MutexLock lock(mutex_);
  calls::KeyPage page;
  for (auto at = grants_.upper_bound(call.after); at != grants_.end(); ++at) {
    if (page.keys.size() == calls::kKeysPerPage) break;
    page.keys.push_back({at->first, at->second.keys[call.pair]});
  }
  return page;
}

}  // namespace brickfs
