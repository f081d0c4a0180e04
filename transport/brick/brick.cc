// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/brick.h"

#include <algorithm>

#include "transport/brick/limits.h"

namespace brickfs {

Status check_open(const OpenRequest& request) {
  if (request.client == ClientId{}) return Error(EINVAL, "no client id");
  if (request.volume.size() > limits::kVolumeNameBytes || request.client_name.size() > limits::kClientNameBytes) {
    return Error(EINVAL, "name is too long");
  }
  return {};
}

uint64_t length_of(const Transfer& transfer) {
  uint64_t length = 0;
  for (const LocalSlice& slice : transfer.local) length += slice.length_bytes;
  return length;
}

int check_transfer(const Transfer& transfer) {
  const uint64_t length = length_of(transfer);
  const uint64_t size = transfer.handle.blocks.count * kBlockBytes;
  if (length == 0 || length > limits::kTransferBytes || transfer.local.size() > limits::kSlicesPerTransfer)
    return EINVAL;
  if (transfer.offset > size || length > size - transfer.offset) return EINVAL;
  if (transfer.direction == Direction::kWrite && transfer.handle.access != Access::kReadWrite) return EACCES;
  return 0;
}

Result<std::vector<BlockRange>> list_blocks(Brick& brick) {
  std::vector<BlockRange> blocks;
  BlockAddress cursor{0};
  for (;;) {
    const ListPage page = TRY(brick.list(cursor));
    for (const BlockRange& extent : page.extents) {
      if (!is_valid(extent)) return Error(EPROTO, "list of blocks");
      if (!blocks.empty()) {
        if (raw(extent.start) < raw(blocks.back().end())) return Error(EPROTO, "list of blocks");
        if (extent.start == blocks.back().end()) {
          blocks.back().count += extent.count;
          continue;
        }
      }
      blocks.push_back(extent);
    }
    if (!page.cursor) return blocks;
    if (raw(*page.cursor) <= raw(cursor)) return Error(EPROTO, "list of blocks");
    cursor = *page.cursor;
  }
}

Status commit_ranges(Brick& brick, std::span<const CommitRange> ranges) {
  do {
    const size_t count = std::min(ranges.size(), limits::kRangesPerCommit);
    TRY(brick.commit(ranges.first(count)));
    ranges = ranges.subspan(count);
  } while (!ranges.empty());
  return {};
}

}  // namespace brickfs
