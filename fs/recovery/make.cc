// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/make.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fs/recovery/reconcile.h"
#include "transport/base/zero.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

constexpr BlockRange kFirstJournalBlock{BlockAddress{kBlockBytes}, 1};
constexpr uint64_t kRootNumber = raw(kRootIno);

// Zeros all over, except perhaps in the places of the mark and of what a set keeps.
Result<bool> is_blank(VolumeSet& volume) {
  std::vector<std::byte> bytes(kBlockBytes);
  Piece piece;
  piece.local.push_back({bytes.data(), static_cast<uint32_t>(bytes.size()), 0});
  TRY(volume.read(std::span(&piece, 1)));
  std::fill_n(bytes.begin() + StoredMark::kAddress, sizeof(StoredMark), std::byte{0});
  std::fill(bytes.begin() + kReplicaAreaOffset, bytes.begin() + StoredMark::kAddress, std::byte{0});
  return is_zero(bytes);
}

VolumeHead refused(std::string why) {
  VolumeHead head;
  head.kind = VolumeHead::Kind::kRefused;
  head.why = std::move(why);
  return head;
}

}  // namespace

Result<VolumeHead> read_head(VolumeSet& volume, SuperblockSlots& slots, std::span<const BlockRange> listed) {
  VolumeHead head;
  if (listed.empty()) return head;
  if (!volume.is_striped() && !volume.is_replicated()) {
    const std::string membership = TRY(describe_membership(volume.member(0).first(), listed));
    if (!membership.empty()) return refused(membership);
  }
  if (!subtract(std::span(&kSuperblockBlock, 1), listed).empty()) {
    return refused(fmt::format("this volume holds {} block(s) but no brickfs: there is no superblock block",
                               count_blocks(listed)));
  }
  head.mark = TRY(read_mark(volume));
  head.superblock = TRY(slots.read());
  switch (head.superblock.kind) {
    case SuperblockRead::Kind::kValid:
      head.kind = VolumeHead::Kind::kMade;
      return head;
    case SuperblockRead::Kind::kNewer:
      head.kind = VolumeHead::Kind::kNewer;
      head.why = head.superblock.why;
      return head;
    case SuperblockRead::Kind::kEmpty:
    case SuperblockRead::Kind::kForeign:
    case SuperblockRead::Kind::kDamaged:
      break;
  }
  if (head.mark == Mark::kMaking) return head;
  if (count_blocks(listed) == 1 && TRY(is_blank(volume))) return head;
  return refused(
      fmt::format("this volume holds {} block(s) but no brickfs: {}", count_blocks(listed), head.superblock.why));
}

Status make_filesystem(VolumeSet& volume, SuperblockSlots& slots, std::span<const BlockRange> listed) {
  if (listed.empty()) TRY(volume.alloc(kSuperblockBlock));
  TRY(write_mark(volume, Mark::kMaking));
  for (const BlockRange& rest : subtract(listed, std::span(&kSuperblockBlock, 1))) TRY(volume.free(rest));
  TRY(volume.alloc(kFirstJournalBlock));
  Superblock superblock = new_superblock("");
  superblock.next_ino = Ino{kRootNumber + 1};
  superblock.journal_block = kFirstJournalBlock.start;
  if (volume.is_striped() || volume.is_replicated()) superblock.features.incompat |= kStriped;
  TRY(slots.write(superblock));
  return write_mark(volume, Mark::kNone);
}

}  // namespace brickfs
