// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/files_on_brick.h"

#include <array>

#include "fs/persistence/superblock.h"
#include "transport/brick/limits.h"
#include "transport/volume/group.h"
#include "transport/volume/replica_format.h"
#include "transport/volume/set_format.h"

namespace brickfs {
namespace {

struct Sign {
  uint64_t offset;  // in the first block of a place
  uint64_t magic;
};
constexpr std::array<Sign, 6> kSigns = {{{kSuperblockSlots[0], kSuperblockMagic},
                                         {kSuperblockSlots[1], kSuperblockMagic},
                                         {StoredMemberMark::kJoiningOffset, StoredMemberMark::kMagic},
                                         {StoredMemberMark::kJoinedOffset, StoredMemberMark::kMagic},
                                         {kReplicaMarkOffset, StoredReplicaMark::kMagic},
                                         {kReplicaMarkOffset + kReplicaMarkSlotBytes, StoredReplicaMark::kMagic}}};

Result<bool> has_sign(Brick& brick, BlockRange block) {
  const auto handles = TRY(brick.map(block, Access::kRead));
  if (handles.empty()) return Error(EPROTO, "a block without a handle");
  const Handle& handle = handles.front();
  std::array<uint64_t, kSigns.size()> found{};
  std::array<LocalSlice, kSigns.size()> slices;
  Batch batch;
  for (size_t i = 0; i < kSigns.size(); ++i) {
    slices[i] = {reinterpret_cast<std::byte*>(&found[i]), sizeof(found[i]), 0};
    const uint64_t offset = raw(block.start) - raw(handle.blocks.start) + kSigns[i].offset;
    batch.transfers.push_back({Direction::kRead, handle, offset, std::span(&slices[i], 1)});
  }
  brick.submit(batch);
  const Status read = brick.wait(batch);
  TRY(brick.unmap(block));
  TRY(read);
  for (size_t i = 0; i < kSigns.size(); ++i) {
    if (found[i] == kSigns[i].magic) return true;
  }
  return false;
}

}  // namespace

Result<bool> has_files(Brick& brick) {
  for (size_t place = 0; place < limits::kBricksPerSet;) {
    const BlockRange first = first_block_of(place);
    const ListPage page = TRY(brick.list(first.start));
    if (page.extents.empty()) return false;
    const BlockAddress next = page.extents.front().start;
    if (next != first.start) {
      place = place_of(group_of(raw(next) + kPlaceBytes - kBlockBytes));
      continue;
    }
    if (TRY(has_sign(brick, first))) return true;
    ++place;
  }
  return false;
}

}  // namespace brickfs
