// SPDX-License-Identifier: Apache-2.0
// One client's session: the checks of what it may do, its handles, and its end, which comes from its own side (close,
// disconnect) or from a taker of its lease (fence).
//
// Its end, always in this order: calls are refused; (fence: the connection is cut off;) calls under way return; handles
// die and their pins are waited for; the blocks are unmapped.
//
// Threads: every call from any thread. Held by shared_ptr, so that a taker may end it while its listener drops it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "server/service/brick_service.h"
#include "server/service/handle_table.h"
#include "server/store/block_store.h"
#include "transport/base/mutex.h"

namespace brickfs {

// What a listener gives for its peer.
struct PeerEnd {
  std::function<void()> cut_off;
  std::shared_ptr<RemoteAccess> remote;  // may be null
};

class SessionState {
 public:
  struct Fixed {
    VolumeId volume{};
    ClientId client{};
    OpenMode mode = OpenMode::kExclusive;
    Holder holder;  // as others see him
    Session description;
    PeerEnd peer;
  };
  SessionState(Fixed fixed, BlockStore& blocks);
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  VolumeId volume() const { return fixed_.volume; }
  ClientId client() const { return fixed_.client; }
  OpenMode mode() const { return fixed_.mode; }
  const Holder& holder() const { return fixed_.holder; }
  const Session& description() const { return fixed_.description; }

  Status alloc(BlockRange blocks);
  Status free(BlockRange blocks);
  Result<std::vector<Handle>> map(BlockRange blocks, Access access);
  Status unmap(BlockRange blocks);
  Result<ListPage> list(BlockAddress cursor);
  Status commit(std::span<const CommitRange> ranges, const BlockStore::Abandoned& abandoned);
  // The fields that are the blocks'.
  Result<BrickStat> stat();
  Result<Pin> pin(uint32_t key, uint64_t address, uint64_t length_bytes, Access access) const {
    if (ended_.load(std::memory_order_relaxed)) return Error(ESTALE, "the session has ended");
    return handles_.pin(key, address, length_bytes, access);
  }

  void touch() { heard_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed); }
  // Nothing heard for so long, and no call under way: while it is, its client cannot be heard.
  bool silent_for(std::chrono::milliseconds limit) const;
  bool ended() const { return ended_.load(); }

  // Ends it from its own side; does nothing if it is ending already. True: this call ended it.
  bool end(AfterWriting after);
  // Ends it from outside, cutting off its peer. Returns when it has ended, whoever did it.
  void fence();

 private:
  class Call;
  Status check(BlockRange blocks, bool needs_exclusive) const;
  Result<Handle> make_handle(BlockRange blocks, Access access, std::byte* memory);
  bool begin_end();
  void finish_end(AfterWriting after);
  void release(std::span<const HandleTable::Revoked> revoked, AfterWriting after, BlockRange doomed = {});
  void unmap_part(BlockAddress start, BlockAddress end, Access access, AfterWriting after);
  void cut_off() { std::call_once(cut_off_, fixed_.peer.cut_off); }

  const Fixed fixed_;
  BlockStore& blocks_;

  HandleTable handles_;
  std::atomic<std::chrono::steady_clock::rep> heard_{0};
  std::once_flag cut_off_;
  std::atomic<bool> ended_{false};  // written under mutex_

  mutable Mutex mutex_;
  CondVar changed_;
  uint32_t calls_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  bool end_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace brickfs
