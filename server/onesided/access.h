// SPDX-License-Identifier: Apache-2.0
// What all have in common by which one client reaches the brick's memory itself: queue pairs (of verbs; endpoints of
// libfabric) in slots, and a grant for each handle, with a key on each of them. Transports derive, and say what a grant
// owns there.
//
// Threads: every call from any thread. What derives calls end() in its destructor: grants go before what they are of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "server/service/brick_service.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/calls.h"
#include "transport/brick/limits.h"

namespace brickfs {

// `Owned`: what makes memory reachable, as long as it is there.
template <typename Owned>
class OneSidedAccess : public RemoteAccess {
 public:
  Result<uint32_t> grant(std::span<std::byte> memory, Access access) final;
  void add_keys(calls::Mapped& mapped) const final;
  void cut_off() final;
  Result<calls::Answer> call(const calls::Request& request) final;

 protected:
  static constexpr size_t kSlots = limits::kQueuePairsPerSession;
  struct Grant {
    std::span<std::byte> memory;
    Access access{};
    calls::QueuePairKeys keys{};  // by slot; 0: not by that one
    Owned owned;
  };

  // Keys are given from the first on.
  explicit OneSidedAccess(uint32_t first_key) : next_key_(first_key) {}
  // QUEUE_PAIR or ENDPOINT.
  virtual Result<calls::Answer> offer(const calls::Request& request) = 0;
  virtual bool has_pair(size_t slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Makes the grant's memory reachable by the pair in `slot`, and notes its key. One that has failed is no error.
  virtual Status extend(Grant& grant, size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // On return no access by it can land any more, what grants owned of it is gone, and whoever it was offered to is not
  // let in. There may be none.
  virtual void destroy_pair(size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // All grants; else the pair is destroyed.
  Status extend_all(size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_; }
  void end();

  mutable Mutex mutex_;
  std::map<uint32_t, Grant> grants_ ABSL_GUARDED_BY(mutex_);

 private:
  // Bit n: the pair in slot n.
  void detach(uint32_t pairs);
  calls::KeyPage keys_of(const calls::Keys& call) const;

  uint32_t next_key_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

template <typename Owned>
Result<uint32_t> OneSidedAccess<Owned>::grant(std::span<std::byte> memory, Access access) {
  MutexLock lock(mutex_);
  if (over_) return Error(ENOTCONN, "the session is cut off");
  while (next_key_ == 0 || grants_.contains(next_key_)) ++next_key_;
  const uint32_t key = next_key_++;
  Grant& grant = grants_[key];
  grant.memory = memory;
  grant.access = access;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    const Status extended = has_pair(slot) ? extend(grant, slot) : Status();
    if (extended.ok()) continue;
    lock.unlock();
    revoke({&key, 1});
    return extended.error();
  }
  return key;
}

template <typename Owned>
Status OneSidedAccess<Owned>::extend_all(size_t slot) {
  for (auto& [key, grant] : grants_) {
    const Status extended = extend(grant, slot);
    if (extended.ok()) continue;
    destroy_pair(slot);
    return extended;
  }
  return {};
}

template <typename Owned>
Result<calls::Answer> OneSidedAccess<Owned>::call(const calls::Request& request) {
  return std::visit(calls::Overloaded{
                        [&](const calls::Detach& call) {
                          detach(call.pairs);
                          return calls::to_answer(Status());
                        },
                        [&](const calls::Keys& call) { return calls::to_answer(Result(keys_of(call))); },
                        [&](const auto&) { return offer(request); },
                    },
                    request);
}

template <typename Owned>
void OneSidedAccess<Owned>::detach(uint32_t pairs) {
  MutexLock lock(mutex_);
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if ((pairs >> slot & 1) != 0) destroy_pair(slot);
  }
}

template <typename Owned>
void OneSidedAccess<Owned>::cut_off() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  detach(UINT32_MAX);
}

template <typename Owned>
void OneSidedAccess<Owned>::end() {
  detach(UINT32_MAX);
  MutexLock lock(mutex_);
  grants_.clear();
}

// One that was unmapped meanwhile has no keys.
template <typename Owned>
void OneSidedAccess<Owned>::add_keys(calls::Mapped& mapped) const {
  MutexLock lock(mutex_);
  for (Handle& handle : mapped.handles) {
    const auto grant = grants_.find(handle.remote_key);
    mapped.keys.push_back(grant == grants_.end() ? calls::QueuePairKeys{} : grant->second.keys);
    // As the device has it: not that of the table.
    handle.remote_address = grant == grants_.end() ? 0 : reinterpret_cast<uint64_t>(grant->second.memory.data());
  }
}

template <typename Owned>
calls::KeyPage OneSidedAccess<Owned>::keys_of(const calls::Keys& call) const {
  MutexLock lock(mutex_);
  calls::KeyPage page;
  for (auto at = grants_.upper_bound(call.after); at != grants_.end(); ++at) {
    if (page.keys.size() == calls::kKeysPerPage) break;
    page.keys.push_back({at->first, at->second.keys[call.pair]});
  }
  return page;
}

}  // namespace brickfs
