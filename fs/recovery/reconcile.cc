// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/reconcile.h"

#include <fmt/core.h>

#include <algorithm>

#include "fs/inode/inode_walk.h"

namespace brickfs {
namespace {

uint64_t first_block(const UnitRun& run) { return run.first / kUnitsPerBlock; }
uint64_t end_block(const UnitRun& run) { return divide_up(run.end(), kUnitsPerBlock); }
BlockRange blocks_between(uint64_t first, uint64_t end) { return {BlockAddress{first * kBlockBytes}, end - first}; }
uint64_t first_block(const BlockRange& range) { return raw(range.start) / kBlockBytes; }
uint64_t end_block(const BlockRange& range) { return first_block(range) + range.count; }

std::vector<UsedRun> runs_of_files(const InodeTable& inodes) {
  std::vector<UsedRun> runs;
  for_each_inode(inodes, [&runs](const Inode& inode) {
    if (inode.extents == nullptr) return;
    for (auto extent = inode.extents->at_or_after(0); extent; extent = inode.extents->at_or_after(extent->end())) {
      runs.push_back({{extent->volume_unit, extent->count}, inode.ino, nullptr});
    }
  });
  return runs;
}

bool by_place(const UsedRun& a, const UsedRun& b) { return a.run.first < b.run.first; }

// `runs` ascend. What overlaps an earlier one is reported once.
void report_overlaps(std::span<const UsedRun> runs, Findings& findings) {
  const UsedRun* reach = nullptr;  // of those before, the one that ends last
  for (const UsedRun& used : runs) {
    if (reach != nullptr && used.run.first < reach->run.end()) {
      findings.damage(Finding::Area::kSpace, used.ino, used.run.address(),
                      fmt::format("volume address {:#x} is used twice: by {} and by {}", used.run.address(),
                                  reach->owner(), used.owner()));
    }
    if (reach == nullptr || used.run.end() > reach->run.end()) reach = &used;
  }
}

// The blocks that ascending runs touch, maximal ranges.
std::vector<BlockRange> blocks_of(std::span<const UsedRun> runs) {
  std::vector<BlockRange> blocks;
  for (const UsedRun& used : runs) {
    const uint64_t first = first_block(used.run);
    const uint64_t end = end_block(used.run);
    if (!blocks.empty() && first <= end_block(blocks.back())) {
      BlockRange& last = blocks.back();
      last.count = std::max(end_block(last), end) - first_block(last);
    } else {
      blocks.push_back(blocks_between(first, end));
    }
  }
  return blocks;
}

// Names the first user of each missing range.
void report_missing(std::span<const BlockRange> missing, std::span<const UsedRun> runs, Findings& findings) {
  size_t at = 0;
  for (const BlockRange& range : missing) {
    while (at < runs.size() && end_block(runs[at].run) <= first_block(range)) ++at;
    const std::string owner = at < runs.size() ? runs[at].owner() : "nobody";
    findings.damage(
        Finding::Area::kSpace, at < runs.size() ? runs[at].ino : kNoIno, raw(range.start),
        fmt::format("{} block(s) at {:#x} used by {} are not on the brick", range.count, raw(range.start), owner));
  }
}

}  // namespace

std::string UsedRun::owner() const {
  return metadata != nullptr ? fmt::format("the {}", metadata) : fmt::format("inode {}", raw(ino));
}

Reconciliation reconcile(const InodeTable& inodes, std::span<const MetadataBlocks> metadata,
                         std::span<const BlockRange> listed, Findings& findings) {
  Reconciliation result;
  result.file_runs = runs_of_files(inodes);
  std::ranges::sort(result.file_runs, by_place);

  std::vector<UsedRun> metadata_runs;
  for (const MetadataBlocks& part : metadata) {
    const UnitRun run{first_block(part.blocks) * kUnitsPerBlock, part.blocks.count * kUnitsPerBlock};
    metadata_runs.push_back({run, kNoIno, part.what});
  }
  std::ranges::sort(metadata_runs, by_place);

  std::vector<UsedRun> all(result.file_runs.size() + metadata_runs.size());
  std::ranges::merge(result.file_runs, metadata_runs, all.begin(), by_place);
  report_overlaps(all, findings);
  const std::vector<BlockRange> used = blocks_of(all);
  report_missing(subtract(used, listed), all, findings);
  result.leaked = subtract(listed, used);
  result.kept = subtract(listed, result.leaked);
  return result;
}

}  // namespace brickfs
