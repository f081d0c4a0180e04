// SPDX-License-Identifier: Apache-2.0
// The C interface to blocks.
#include <algorithm>
#include <vector>

#include "fs/library/block_volume.h"
#include "fs/library/quiet.h"
#include "fs/library/signals_blocked.h"

namespace brickfs::library {
namespace {

BlockRange range_of(uint64_t address, uint64_t count) { return {BlockAddress{address}, count}; }

// Checked here, so that it is the same for every kind of brick.
Status check(BlockRange blocks) {
  if (!is_valid(blocks) || blocks.count > limits::kBlocksPerCall) return Error(EINVAL, "range of blocks");
  return {};
}

template <typename Call>
int on_range(brickfs_volume* volume, uint64_t address, uint64_t count, Call call) {
  return guarded([&]() -> int {
    if (volume == nullptr) return -EFAULT;
    const BlockRange blocks = range_of(address, count);
    if (const Status status = check(blocks); !status.ok()) return code_of(status);
    return code_of(call(*volume->blocks, blocks));
  });
}

int64_t transfer(brickfs_volume* volume, Direction direction, void* data, size_t length, uint64_t address,
                 const brickfs_buffer* buffer) {
  return guarded([&]() -> int64_t {
    if (volume == nullptr) return -EFAULT;
    BlockVolume& blocks = *volume->blocks;
    Slices slices;
    if (const Status status = add_slices(slices, data, length, buffer, blocks.children); !status.ok())
      return code_of(status);
    Batch batch;
    std::vector<LocalSlice> cut;
    if (const Status status = blocks.plan(direction, address, slices, batch, cut); !status.ok()) return code_of(status);
    blocks.submit(batch);
    const Status status = blocks.wait(batch);
    return status.ok() ? static_cast<int64_t>(length) : code_of(status);
  });
}

Status list_runs(BlockVolume& blocks, uint64_t& cursor, brickfs_range* ranges, size_t most, size_t& found) {
  if (cursor % kBlockBytes != 0) return Error(EINVAL, "not the address of a block");
  std::optional<BlockAddress> next = BlockAddress{cursor};
  while (next && found == 0) {
    const ListPage page = TRY(blocks.list(*next));
    for (const BlockRange& run : page.extents) {
      if (found == most) break;
      ranges[found++] = {raw(run.start), run.count};
      cursor = raw(run.end());
    }
    next = page.cursor;
  }
  return {};
}

}  // namespace
}  // namespace brickfs::library

using namespace brickfs::library;
using brickfs::BlockRange;
using brickfs::Direction;

int brickfs_volume_open(const char* source, const char* options, brickfs_volume** volume) {
  return guarded([&]() -> int {
    if (source == nullptr || volume == nullptr) return -EFAULT;
    be_quiet();
    const SignalsBlocked blocked;
    std::string why;
    auto plan = plan_open(source, options, &why);
    if (!plan.ok()) {
      set_open_error(std::move(why));
      return code_of(plan.error());
    }
    auto opened = BlockVolume::open(std::move(*plan), &why);
    if (!opened.ok()) {
      set_open_error(std::move(why));
      return code_of(opened.error());
    }
    set_open_error("");
    *volume = new brickfs_volume{std::move(*opened)};
    return 0;
  });
}

int brickfs_volume_close(brickfs_volume* volume) {
  return guarded([&]() -> int {
    if (volume == nullptr) return -EFAULT;
    if (!volume->blocks->children.none()) return -EBUSY;
    const std::unique_ptr<brickfs_volume> gone(volume);
    return code_of(gone->blocks->close());
  });
}

int brickfs_volume_abandon(brickfs_volume* volume) {
  return guarded([&]() -> int {
    if (volume == nullptr) return -EFAULT;
    volume->blocks->abandon();
    return 0;
  });
}

int brickfs_volume_reopen(brickfs_volume* volume) {
  return guarded([&]() -> int {
    if (volume == nullptr) return -EFAULT;
    const SignalsBlocked blocked;
    const auto restarted = volume->blocks->reopen();
    return restarted.ok() ? static_cast<int>(*restarted) : code_of(restarted.error());
  });
}

int brickfs_volume_stat(brickfs_volume* volume, brickfs_volume_stat_t* stat) {
  return guarded([&]() -> int {
    if (volume == nullptr || stat == nullptr) return -EFAULT;
    return code_of(volume->blocks->stat(*stat));
  });
}

int brickfs_volume_alloc(brickfs_volume* volume, uint64_t address, uint64_t count) {
  return on_range(volume, address, count, [](BlockVolume& blocks, BlockRange range) { return blocks.alloc(range); });
}

int brickfs_volume_free(brickfs_volume* volume, uint64_t address, uint64_t count) {
  return on_range(volume, address, count, [](BlockVolume& blocks, BlockRange range) { return blocks.free(range); });
}

int brickfs_volume_map(brickfs_volume* volume, uint64_t address, uint64_t count, int writable) {
  return on_range(volume, address, count,
                  [&](BlockVolume& blocks, BlockRange range) { return blocks.map(range, writable != 0); });
}

int brickfs_volume_unmap(brickfs_volume* volume, uint64_t address, uint64_t count) {
  return on_range(volume, address, count, [](BlockVolume& blocks, BlockRange range) { return blocks.unmap(range); });
}

int brickfs_volume_list(brickfs_volume* volume, uint64_t* cursor, brickfs_range* ranges, size_t most) {
  return guarded([&]() -> int {
    if (volume == nullptr || cursor == nullptr || ranges == nullptr) return -EFAULT;
    size_t found = 0;
    const brickfs::Status status =
        list_runs(*volume->blocks, *cursor, ranges, std::min<size_t>(most, INT32_MAX), found);
    return status.ok() ? static_cast<int>(found) : code_of(status);
  });
}

int brickfs_volume_commit(brickfs_volume* volume, const brickfs_range* ranges, size_t count) {
  return guarded([&]() -> int {
    if (volume == nullptr || (ranges == nullptr && count > 0)) return -EFAULT;
    if (count > brickfs::limits::kRangesPerCommit) return -EINVAL;
    std::vector<brickfs::CommitRange> named;
    for (size_t i = 0; i < count; ++i) {
      if (ranges[i].count == 0 || ranges[i].count > UINT64_MAX - ranges[i].address) return -EINVAL;
      named.push_back({ranges[i].address, ranges[i].count, false});
    }
    return code_of(volume->blocks->commit(named));
  });
}

int brickfs_volume_notify(brickfs_volume* volume, uint64_t tag, uint64_t value) {
  return guarded([&]() -> int {
    if (volume == nullptr) return -EFAULT;
    return code_of(volume->blocks->notify(tag, value));
  });
}

int brickfs_volume_wait(brickfs_volume* volume, brickfs_notice* notices, unsigned count, int timeout_ms) {
  return guarded([&]() -> int {
    if (volume == nullptr || notices == nullptr) return -EFAULT;
    if (count == 0 || count > brickfs::limits::kTagsPerWait) return -EINVAL;
    std::optional<std::chrono::milliseconds> timeout;
    if (timeout_ms >= 0) timeout = std::chrono::milliseconds(timeout_ms);
    const auto with_news = volume->blocks->wait({notices, count}, timeout);
    return with_news.ok() ? static_cast<int>(*with_news) : code_of(with_news.error());
  });
}

int64_t brickfs_volume_read(brickfs_volume* volume, void* data, size_t length, uint64_t address,
                            const brickfs_buffer* buffer) {
  return transfer(volume, Direction::kRead, data, length, address, buffer);
}

int64_t brickfs_volume_write(brickfs_volume* volume, const void* data, size_t length, uint64_t address,
                             const brickfs_buffer* buffer) {
  return transfer(volume, Direction::kWrite, const_cast<void*>(data), length, address, buffer);
}

int brickfs_volume_buffer(brickfs_volume* volume, void* memory, size_t length, brickfs_buffer** buffer) {
  return guarded([&]() -> int {
    if (volume == nullptr || buffer == nullptr) return -EFAULT;
    BlockVolume& blocks = *volume->blocks;
    const auto made = make_buffer(memory, length, blocks.children,
                                  [&](std::span<std::byte> bytes) { return blocks.register_memory(bytes); });
    if (!made.ok()) return code_of(made.error());
    *buffer = *made;
    return 0;
  });
}
