// SPDX-License-Identifier: Apache-2.0
// The blocks of a volume, as the C interface has them: a session on a brick and what is mapped in it. All calls to the
// brick stand in block_volume.cc.
//
// Threads: any.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "fs/library/buffer.h"
#include "fs/library/options.h"
#include "transport/base/mutex.h"
#include "transport/brick/brick.h"

namespace brickfs::library {

class BlockVolume {
 public:
  static Result<std::unique_ptr<BlockVolume>> open(OpenPlan plan, std::string* why);

  Status close();
  void abandon() { brick_->abandon(); }
  Result<bool> reopen();  // true: the brick was restarted
  Status stat(brickfs_volume_stat_t& out);
  Status alloc(BlockRange blocks);
  Status free(BlockRange blocks);
  Status map(BlockRange blocks, bool writable);
  Status unmap(BlockRange blocks);
  Result<ListPage> list(BlockAddress cursor);
  Status commit(std::span<const CommitRange> ranges);
  Status notify(uint64_t tag, uint64_t value) { return brick_->notify(tag, value); }
  // How many of them have news. Without a timeout: at least one.
  Result<unsigned> wait(std::span<brickfs_notice> notices, std::optional<std::chrono::milliseconds> timeout);
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) { return brick_->register_memory(memory); }

  // Fills a batch with the transfers of `slices` from or to an address. These, and `cut`, which gets what of them lies
  // in several handles, stay in place until it is complete. ENXIO; EINVAL: too many bytes, none, or too many slices.
  Status plan(Direction direction, uint64_t address, std::span<const LocalSlice> slices, Batch& batch,
              std::vector<LocalSlice>& cut);
  void submit(Batch& batch) { brick_->submit(batch); }
  Status wait(Batch& batch) { return brick_->wait(batch); }

  Children children;

 private:
  struct Span {
    uint64_t bytes;
    Handle handle;
  };
  using Spans = absl::InlinedVector<Span, 3>;

  BlockVolume(OpenPlan plan, std::unique_ptr<Brick> brick, const Session& session)
      : plan_(std::move(plan)), brick_(std::move(brick)), session_(session) {}
  Status find(Direction direction, uint64_t address, uint64_t bytes, Spans& spans);
  void forget(BlockRange blocks);
  Status check_writes() const;

  OpenPlan plan_;
  const std::unique_ptr<Brick> brick_;
  SharedMutex mutex_;
  Session session_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Handle> mapped_ ABSL_GUARDED_BY(mutex_);  // by block address
};

}  // namespace brickfs::library

struct brickfs_volume {
  std::unique_ptr<brickfs::library::BlockVolume> blocks;
};
