// SPDX-License-Identifier: Apache-2.0
// The handles of one session by block, and which of them may go when the brick is out of memory.
//
// A *mapping* is one handle and the blocks it covers: it is used, and given up, as a whole, since unmapping any of its
// blocks revokes it. A *lease* keeps it from being given up. A *claim* is the right to map, unmap or free
// blocks; two claims never overlap. Claims and leases are short: they end within a session's
// guard (VolumeLink::Guard).
//
// Finding a mapped block takes a shared lock on a shard only. Nothing here calls the brick.
// Threads: any. Lock order: control_, then a shard.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/block_set.h"
#include "transport/brick/brick.h"

namespace brickfs {

class HandleCache {
  struct Mapping;

 public:
  static constexpr std::chrono::milliseconds kRecheck{20};  // waits of those who need what others have in use

  HandleCache() = default;
  HandleCache(const HandleCache&) = delete;
  HandleCache& operator=(const HandleCache&) = delete;

  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(cache_, other.cache_);
      std::swap(mapping_, other.mapping_);
      return *this;
    }
    ~Lease();
    explicit operator bool() const { return mapping_ != nullptr; }
    const Handle& handle() const;
    // The generation of the replay log that a write through this lease went to.
    void written(uint64_t generation) const;

   private:
    friend class HandleCache;
    Lease(HandleCache* cache, std::shared_ptr<Mapping> mapping) : cache_(cache), mapping_(std::move(mapping)) {}
    HandleCache* cache_ = nullptr;
    std::shared_ptr<Mapping> mapping_;
  };

  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept {
      std::swap(cache_, other.cache_);
      std::swap(blocks_, other.blocks_);
      std::swap(former_, other.former_);
      return *this;
    }
    ~Claim();
    bool empty() const { return blocks_.empty(); }
    const BlockSet& blocks() const { return blocks_; }
    BlockRange range() const { return blocks_.ranges().front(); }  // of a claim to map, which is one run

   private:
    friend class HandleCache;
    HandleCache* cache_ = nullptr;
    BlockSet blocks_;
    std::shared_ptr<Mapping> former_;  // to be replaced by one for writing
  };

  // Empty: not mapped, or not for that.
  Lease find(BlockAddress block, Access access);

  // To map `first`, and up to `most` blocks from it on as far as nobody has them. Waits for others' claims on `first`.
  // Empty: it is mapped by now. A block mapped for reading is claimed with its whole mapping when it is to be written.
  Claim claim_missing(BlockAddress first, uint64_t most, Access access);
  // Gives blocks of a claim back from `keep` on: map fewer.
  void shorten(Claim& claim, uint64_t keep);
  // What map() answered for the claim. The lease is on `leased`. EPROTO: handles that do not cover the claim.
  Result<Lease> insert(Claim claim, std::span<const Handle> handles, Access access, BlockAddress leased);

  // Mappings of about so many blocks that nobody uses, coldest first, out of the cache: to be unmapped while the claim
  // lives. Only clean ones: written in no generation after `committed`. `writable`: only those for writing.
  Claim take_cold(uint64_t blocks, uint64_t committed, bool writable);

  enum class Retire { kDone, kInUse, kDirty };
  // Takes every mapping of any of these blocks out, and claims the blocks, for free(). kDirty: a mapping reaches over
  // blocks that stay and were written after `committed`.
  Retire retire(BlockRange blocks, uint64_t committed, Claim& claim);

  // Until a lease or a claim has ended, or `timeout`.
  void await_change(std::chrono::milliseconds timeout);
  // The session is gone, and so are all handles. No lease may be out.
  void clear();

  uint64_t mapped_blocks() const { return mapped_blocks_.load(std::memory_order_relaxed); }
  uint64_t writable_blocks() const { return writable_blocks_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 64;
  static constexpr int32_t kGone = INT32_MIN;

  struct Mapping {
    explicit Mapping(const Handle& h) : handle(h) {}
    bool acquire();  // false: it is being given up
    bool give_up();  // false: in use
    void take_back() { uses.store(0, std::memory_order_release); }
    bool writable() const { return handle.access == Access::kReadWrite; }

    const Handle handle;
    std::atomic<int32_t> uses{0};
    std::atomic<bool> touched{true};  // since the clock hand last passed
    std::atomic<uint64_t> last_write{0};
    // Of the same blocks, for reading, replaced by this: unmapping ends its handle too, so its users are waited for.
    std::shared_ptr<Mapping> former;
  };

  struct alignas(64) Shard {
    SharedMutex mutex;
    absl::flat_hash_map<uint64_t, std::shared_ptr<Mapping>> by_block ABSL_GUARDED_BY(mutex);
  };

  // Neighbours go to one shard, as far as they fit a run of 16.
  Shard& shard_of(BlockAddress block) { return shards_[raw(block) / kBlockBytes / 16 % kShards]; }
  std::shared_ptr<Mapping> look_up(BlockAddress block);
  void publish(const std::shared_ptr<Mapping>& mapping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_);
  void remove(const Mapping& mapping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_);
  void collect_cold(Shard& shard, uint64_t committed, bool writable, std::vector<std::shared_ptr<Mapping>>& cold);
  void release(Mapping& mapping);
  void end_claim(const BlockSet& blocks);

  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> mapped_blocks_{0};
  std::atomic<uint64_t> writable_blocks_{0};
  std::atomic<uint32_t> waiting_{0};

  Mutex control_;
  CondVar changed_;
  BlockSet claimed_ ABSL_GUARDED_BY(control_);
  size_t hand_ ABSL_GUARDED_BY(control_) = 0;
};

}  // namespace brickfs
