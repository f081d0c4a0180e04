// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/space_repair.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "fs/inode/inode_walk.h"
#include "transport/base/bytes.h"

namespace brickfs {
namespace {

constexpr uint64_t kCopyUnits = 256;  // at once

std::string bytes_of(const Extent& extent) {
  return fmt::format("bytes {} to {}", extent.file_unit * kUnitBytes, extent.end() * kUnitBytes - 1);
}

void note(Findings& repairs, Ino ino, const std::string& what) {
  repairs.repair(Finding::Area::kExtent, ino, fmt::format("inode {}: {}", raw(ino), what));
}

// Of an extent, the part on [first, end) of the volume's units. May be empty.
Extent part_on(const Extent& extent, uint64_t first, uint64_t end) {
  const uint64_t from = std::clamp(first, extent.volume_unit, extent.volume_unit + extent.count);
  const uint64_t to = std::clamp(end, from, extent.volume_unit + extent.count);
  return {extent.file_unit + (from - extent.volume_unit), to - from, from, extent.unwritten};
}

void unmap(InodeTable& inodes, Ino ino, const Extent& part) {
  Inode& inode = *inodes.find(ino);
  inode.extents->unmap(part.file_unit, part.count, nullptr);
  if (inode.extents->empty()) inode.extents.reset();
}

std::vector<SharedData> extents_by_place(const InodeTable& inodes) {
  std::vector<SharedData> all;
  for_each_inode(inodes, [&](const Inode& inode) {
    if (inode.extents == nullptr) return;
    for (auto extent = inode.extents->at_or_after(0); extent; extent = inode.extents->at_or_after(extent->end())) {
      all.push_back({inode.ino, *extent});
    }
  });
  std::ranges::sort(all, {}, [](const SharedData& data) { return data.extent.volume_unit; });
  return all;
}

// What files have on `blocks`, which are not theirs, becomes a hole.
void punch(InodeTable& inodes, std::span<const BlockRange> blocks, const char* why, Findings& repairs) {
  size_t at = 0;
  for (const SharedData& data : extents_by_place(inodes)) {
    const uint64_t end = data.extent.volume_unit + data.extent.count;
    while (at < blocks.size() && raw(blocks[at].end()) / kUnitBytes <= data.extent.volume_unit) ++at;
    for (size_t i = at; i < blocks.size() && raw(blocks[i].start) / kUnitBytes < end; ++i) {
      const Extent part = part_on(data.extent, raw(blocks[i].start) / kUnitBytes, raw(blocks[i].end()) / kUnitBytes);
      if (part.count == 0) continue;
      unmap(inodes, data.ino, part);
      note(repairs, data.ino, fmt::format("{} {}: lost, they read as zeros now", bytes_of(part), why));
    }
  }
}

// The one that begins first on the volume keeps what two files have.
std::vector<SharedData> part_overlaps(InodeTable& inodes, Findings& repairs) {
  std::vector<SharedData> shared;
  uint64_t reach = 0;  // units below are somebody's
  Ino owner = kNoIno;
  for (const SharedData& data : extents_by_place(inodes)) {
    const uint64_t end = data.extent.volume_unit + data.extent.count;
    const Extent part = part_on(data.extent, 0, reach);
    if (part.count > 0) {
      unmap(inodes, data.ino, part);
      note(repairs, data.ino,
           fmt::format("{} were inode {}'s as well: one of the two has the other's contents there", bytes_of(part),
                       raw(owner)));
      if (!part.unwritten) shared.push_back({data.ino, part});
    }
    if (end > reach) {
      reach = end;
      owner = data.ino;
    }
  }
  return shared;
}

Status copy_units(VolumeSet& volume, uint64_t from, UnitRun to) {
  std::vector<std::byte> bytes(std::min(to.count, kCopyUnits) * kUnitBytes);
  for (uint64_t done = 0; done < to.count;) {
    const uint64_t units = std::min(to.count - done, kCopyUnits);
    const LocalSlice slice{bytes.data(), static_cast<uint32_t>(units * kUnitBytes), 0};
    const Piece source{(from + done) * kUnitBytes, {slice}};
    const Piece target{(to.first + done) * kUnitBytes, {slice}};
    TRY(volume.read({&source, 1}));
    TRY(volume.write({&target, 1}, Stage::kData));
    done += units;
  }
  return {};
}

}  // namespace

std::vector<SharedData> take_impossible_extents(InodeTable& inodes, std::span<const MetadataBlocks> metadata,
                                                std::span<const BlockRange> listed, Findings& repairs) {
  std::vector<BlockRange> not_files;
  for (const MetadataBlocks& part : metadata) not_files.push_back(part.blocks);
  std::ranges::sort(not_files, {}, &BlockRange::start);
  punch(inodes, not_files, "were in the file system's own blocks", repairs);
  const BlockRange everything{BlockAddress{0}, UINT64_MAX / kBlockBytes};
  punch(inodes, subtract({&everything, 1}, listed), "were in blocks that are not on the brick", repairs);
  return part_overlaps(inodes, repairs);
}

Status copy_shared_data(VolumeSet& volume, Space& space, InodeTable& inodes, std::span<const SharedData> shared,
                        Findings& repairs) {
  for (const SharedData& data : shared) {
    const auto runs = space.allocate(data.extent.count, 0);
    if (!runs.ok()) {
      if (!runs.error().is(ENOSPC) && !runs.error().is(EDQUOT)) return runs.error();
      note(repairs, data.ino, fmt::format("{}: no room for a copy: they read as zeros now", bytes_of(data.extent)));
      continue;
    }
    Extent rest = data.extent;
    Inode& inode = *inodes.find(data.ino);
    if (inode.extents == nullptr) inode.extents = std::make_unique<ExtentMap>();
    for (const UnitRun& run : *runs) {
      TRY(copy_units(volume, rest.volume_unit, run));
      inode.extents->map({rest.file_unit, run.count, run.first, false}, nullptr);
      rest = part_on(rest, rest.volume_unit + run.count, UINT64_MAX);
    }
  }
  return {};
}

}  // namespace brickfs
