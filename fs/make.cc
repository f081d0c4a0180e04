// SPDX-License-Identifier: Apache-2.0
#include "fs/make.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "fs/reconcile.h"
#include "xxhash.h"

namespace brickfs {
namespace {

constexpr BlockRange kFirstJournalBlock{BlockAddress{kBlockBytes}, 1};
constexpr uint64_t kRootNumber = raw(kRootIno);

uint64_t checksum_of(const MakingMark& mark) { return XXH3_64bits(&mark, offsetof(MakingMark, checksum)); }

Status write_mark(VolumeClient& volume, MakingMark mark) {
  Piece piece;
  piece.address = MakingMark::kAddress;
  piece.local.push_back({reinterpret_cast<std::byte*>(&mark), sizeof(mark), 0});
  TRY(volume.write(std::span(&piece, 1), Stage::kSuperblock));
  return volume.commit();
}

struct FirstBlock {
  bool marked = false;
  bool blank = false;  // zeros all over, except perhaps in the mark's place
};

Result<FirstBlock> read_first_block(VolumeClient& volume) {
  std::vector<std::byte> bytes(kBlockBytes);
  Piece piece;
  piece.local.push_back({bytes.data(), static_cast<uint32_t>(bytes.size()), 0});
  TRY(volume.read(std::span(&piece, 1)));
  FirstBlock first;
  const auto mark = load<MakingMark>(std::span(bytes).subspan(MakingMark::kAddress));
  first.marked = mark.magic == MakingMark::kMagic && mark.checksum == checksum_of(mark);
  std::fill_n(bytes.begin() + MakingMark::kAddress, sizeof(MakingMark), std::byte{0});
  first.blank = std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  return first;
}

VolumeHead refused(std::string why) {
  VolumeHead head;
  head.kind = VolumeHead::Kind::kRefused;
  head.why = std::move(why);
  return head;
}

}  // namespace

Result<VolumeHead> read_head(VolumeClient& volume, SuperblockSlots& slots, std::span<const BlockRange> listed) {
  VolumeHead head;
  if (listed.empty()) return head;
  if (!subtract(std::span(&kSuperblockBlock, 1), listed).empty()) {
    return refused(fmt::format("this volume holds {} block(s) but no brickfs: there is no superblock block",
                               count_blocks(listed)));
  }
  const FirstBlock first = TRY(read_first_block(volume));
  head.marked = first.marked;
  head.superblock = TRY(slots.read());
  switch (head.superblock.kind) {
    case SuperblockRead::Kind::kValid: head.kind = VolumeHead::Kind::kMade; return head;
    case SuperblockRead::Kind::kNewer:
      head.kind = VolumeHead::Kind::kNewer;
      head.why = head.superblock.why;
      return head;
    case SuperblockRead::Kind::kEmpty:
    case SuperblockRead::Kind::kForeign:
    case SuperblockRead::Kind::kDamaged: break;
  }
  if (first.marked || (first.blank && count_blocks(listed) == 1)) return head;
  return refused(
      fmt::format("this volume holds {} block(s) but no brickfs: {}", count_blocks(listed), head.superblock.why));
}

Status make_filesystem(VolumeClient& volume, SuperblockSlots& slots, std::span<const BlockRange> listed, bool marked) {
  if (listed.empty()) TRY(volume.alloc(kSuperblockBlock));
  if (!marked) {
    MakingMark mark;
    mark.checksum = checksum_of(mark);
    TRY(write_mark(volume, mark));
  }
  for (const BlockRange& rest : subtract(listed, std::span(&kSuperblockBlock, 1))) TRY(volume.free(rest));
  TRY(volume.alloc(kFirstJournalBlock));
  Superblock superblock = TRY(new_superblock(""));
  superblock.next_ino = Ino{kRootNumber + 1};
  superblock.journal_block = kFirstJournalBlock.start;
  TRY(slots.write(superblock));
  return remove_making_mark(volume);
}

Status remove_making_mark(VolumeClient& volume) {
  MakingMark nothing;
  nothing.magic = 0;
  return write_mark(volume, nothing);
}

}  // namespace brickfs
