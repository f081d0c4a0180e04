// SPDX-License-Identifier: Apache-2.0
// A brick in memory with stated powers over crashes, for tests of what the file system keeps on it: it can stop its
// client at the n-th operation, which then happens in part, and it can crash and lose, or half lose, what was not
// committed. One client at a time. tests/support/embedded_volume.h has the real thing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/brick/brick.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// What outlives the client. Threads: any.
class ModelMedium {
 public:
  ModelMedium(Durability durability, uint64_t capacity_blocks)
      : durability_(durability), capacity_blocks_(capacity_blocks) {}

  // The `n`-th alloc, free, write or commit from now on (1: the next) happens in part, and that is the end of the
  // client: it and everything after it answers ESTALE. Until the next open_model_volume().
  void stop_client_at(uint64_t n, uint64_t seed);
  bool client_stopped() const;
  uint64_t operations() const;  // so far
  // What is not committed survives in part at most: of a commit cut short as far as that came; blocks allocated or
  // freed since the last one may be there or not. No client may be there.
  void crash_brick(uint64_t seed);
  // Allocs, frees, writes and commits do nothing and answer this until it is 0 again.
  void fail_with(int code);
  void set_capacity(uint64_t blocks);

  uint64_t blocks() const;
  bool has_block(BlockAddress address) const;
  // Visible bytes, within one block.
  std::vector<std::byte> read(uint64_t address, size_t bytes) const;
  void overwrite(uint64_t address, std::span<const std::byte> bytes);
  void flip_bit(uint64_t address, unsigned bit);

 private:
  friend class ModelBrick;
  friend std::unique_ptr<VolumeSet> open_model_volume(const std::shared_ptr<ModelMedium>& medium);
  using Block = std::vector<std::byte>;
  using Blocks = std::map<uint64_t, Block>;  // by address

  Status begin(bool* partly) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status alloc(BlockRange blocks);
  Status free(BlockRange blocks);
  int transfer(const Transfer& transfer);
  Status commit(std::span<const CommitRange> ranges);
  void commit_block_table() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void cut_commit_short(std::span<const CommitRange> ranges) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void copy_to_store(uint64_t address, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void land(Blocks& on, uint64_t address, std::span<const std::byte> bytes);
  void land_in_part(uint64_t address, std::span<const std::byte> bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Durability durability_;
  mutable Mutex mutex_;
  uint64_t capacity_blocks_ ABSL_GUARDED_BY(mutex_);
  Blocks visible_ ABSL_GUARDED_BY(mutex_);
  Blocks stored_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> allocated_ ABSL_GUARDED_BY(mutex_);  // since the last commit, as freed_
  std::set<uint64_t> freed_ ABSL_GUARDED_BY(mutex_);
  uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t stop_at_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int fail_with_ ABSL_GUARDED_BY(mutex_) = 0;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

// The medium's next client.
std::unique_ptr<VolumeSet> open_model_volume(const std::shared_ptr<ModelMedium>& medium);

}  // namespace brickfs
