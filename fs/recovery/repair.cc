// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/repair.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fs/operations/filesystem_state.h"
#include "fs/persistence/checkpoint_thread.h"
#include "fs/persistence/tree_scan.h"
#include "fs/recovery/make.h"
#include "fs/recovery/recovery.h"
#include "fs/recovery/space_repair.h"
#include "fs/recovery/tree_repair.h"
#include "fs/space/block_runs.h"

namespace brickfs {
namespace {

class Repair {
 public:
  Repair(VolumeSet& volume, const Progress& progress, std::string* why)
      : volume_(volume), progress_(progress), why_(why), slots_(volume) {}
  Result<Findings> run();

 private:
  Status find_filesystem();
  Status read_tree();
  void keep_real_metadata();
  Status write_tree();
  Status start_space();
  Status start_journal();
  Status write_checkpoint();
  Status free_old_journal();
  Status refuse(Error error, std::string why);

  const Superblock& superblock() const { return head_.superblock.superblock; }

  VolumeSet& volume_;
  const Progress& progress_;
  std::string* const why_;
  SuperblockSlots slots_;
  std::vector<BlockRange> listed_;
  VolumeHead head_;
  InodeTable inodes_;
  RecoveredVolume recovered_;
  // Nothing that was read refers to them. What the repair itself drops goes only when the new tree is in force.
  std::vector<BlockRange> leaked_before_;
  std::vector<BlockRange> old_checkpoint_;  // what there is of it
  std::vector<BlockRange> old_journal_;
  std::vector<SharedData> shared_;
  Findings repairs_;
  // Destroyed in reverse order.
  std::unique_ptr<Space> space_;
  std::unique_ptr<Journal> journal_;
};

Result<Findings> Repair::run() {
  TRY(find_filesystem());
  TRY(read_tree());
  TRY(write_tree());
  return std::move(repairs_);
}

Status Repair::refuse(Error error, std::string why) {
  *why_ = std::move(why);
  return error;
}

Status Repair::find_filesystem() {
  listed_ = TRY(volume_.list());
  head_ = TRY(read_head(volume_, slots_, listed_));
  switch (head_.kind) {
    case VolumeHead::Kind::kMade:
      break;
    case VolumeHead::Kind::kNewer:
      return refuse(Error(ENOTSUP, "the format is newer"), "made by a newer brickfs: " + head_.why);
    case VolumeHead::Kind::kUnmade:
      return refuse(Error(EUCLEAN, "nothing to repair"), "no file system was ever made here: mount it, that makes one");
    case VolumeHead::Kind::kRefused:
      return refuse(Error(EUCLEAN, "no superblock"), head_.why + ": without a superblock nothing can be found");
  }
  if (!head_.superblock.read_only) return {};
  return refuse(Error(ENOTSUP, "the format is newer"),
                "it has features that this brickfs does not know: repair it with a newer one");
}

Status Repair::read_tree() {
  TreeLoader loader(inodes_);
  recovered_ = TRY(read_rows(volume_, superblock(), listed_, inodes_, progress_, loader));
  if (inodes_.size() == 0 && !recovered_.without_root) {
    return refuse(Error(EUCLEAN, "nothing is left"),
                  "nothing of the tree can be read: a repair would leave an empty file system. To begin anew, free the "
                  "volume's blocks");
  }
  for (const Finding& lost : recovered_.findings.kept()) repairs_.repair(lost.area, kNoIno, lost.text + ": given up");
  Findings damage;
  leaked_before_ = reconcile(inodes_, recovered_.metadata, listed_, damage).leaked;
  repair_tree(inodes_, now(), repairs_);
  keep_real_metadata();
  shared_ = take_impossible_extents(inodes_, recovered_.metadata, listed_, repairs_);
  Findings left;
  if (!loader.judge(left) || left.damaged())
    return refuse(Error(EUCLEAN, "not repaired"), "it cannot be repaired: " + left.first_damage());
  recovered_.blocks = reconcile(inodes_, recovered_.metadata, listed_, left);
  if (left.damaged()) return refuse(Error(EUCLEAN, "not repaired"), "it cannot be repaired: " + left.first_damage());
  return {};
}

// Of what the superblock and the journal name, what is there, each block once. It stays as it is until it is not
// needed.
void Repair::keep_real_metadata() {
  BlockRuns seen;
  std::vector<MetadataBlocks> real;
  const auto keep = [&](const MetadataBlocks& part, std::vector<BlockRange>* of_its_kind) {
    for (const BlockRange& there : intersect({&part.blocks, 1}, listed_)) {
      for (uint64_t i = 0; i < there.count; ++i) {
        const BlockRange block{block_after(there.start, i), 1};
        if (seen.contains_any(run_of(block))) continue;
        seen.insert(run_of(block));
        real.push_back({block, part.what});
        if (of_its_kind != nullptr) of_its_kind->push_back(block);
      }
    }
  };
  keep({kSuperblockBlock, "superblock"}, nullptr);
  for (const BlockRange& run : superblock().checkpoint.runs) keep({run, "checkpoint"}, &old_checkpoint_);
  for (const BlockAddress block : recovered_.journal.chain) keep({{block, 1}, "journal"}, &old_journal_);
  if (raw(recovered_.journal.fresh) != 0) keep({{recovered_.journal.fresh, 1}, "journal"}, &old_journal_);
  recovered_.metadata = std::move(real);
}

Status Repair::write_tree() {
  TRY(settle(volume_, recovered_));
  TRY(slots_.restore_copy(head_.superblock));
  if (head_.mark != Mark::kNone) TRY(write_mark(volume_, Mark::kNone));
  TRY(start_space());
  TRY(copy_shared_data(volume_, *space_, inodes_, shared_, repairs_));
  TRY(start_journal());
  TRY(write_checkpoint());
  TRY(free_old_journal());
  for (const BlockRange& leaked : subtract(recovered_.blocks.leaked, leaked_before_)) TRY(volume_.free(leaked));
  TRY(journal_->stop());
  TRY(space_->stop());
  return volume_.commit();
}

Status Repair::start_space() {
  space_ = std::make_unique<Space>(volume_);
  for (const MetadataBlocks& part : recovered_.metadata) TRY(space_->adopt_metadata(part.blocks));
  for (const UsedRun& used : recovered_.blocks.file_runs) TRY(space_->adopt(used.run));
  // No transaction frees anything.
  return space_->start(
      subtract(listed_, leaked_before_), {.blocks = leaked_before_, .are_zeros = head_.mark == Mark::kClean},
      {.durable = [] { return Lsn{0}; }, .make_durable = [](const Interruption*) { return Status(); }});
}

// A journal of its own, behind the numbers of the old one. It has a row in it, so that a checkpoint is due.
Status Repair::start_journal() {
  const BlockRange block = TRY(space_->allocate_metadata(1));
  journal_ = std::make_unique<Journal>(volume_, *space_);
  JournalEnd begin;
  begin.next = std::max(recovered_.journal.next, next(superblock().replay_through));
  begin.fresh = block.start;
  TRY(journal_->start(superblock().seed(), begin, {.on_durable = {}, .on_block_added = {}}));
  Transaction root;
  root.put(inodes_.find(kRootIno)->row());
  journal_->append(root);
  return {};
}

Status Repair::write_checkpoint() {
  Superblock former = superblock();
  former.checkpoint.runs = old_checkpoint_;
  ReadTimes unread;
  CheckpointThread checkpoints({.volume = volume_,
                                .space = *space_,
                                .journal = *journal_,
                                .scan = [this] { return std::make_unique<TreeScan>(inodes_); },
                                .next_ino = [this] { return inodes_.next_number(); },
                                .read_times = unread},
                               slots_, former);
  const Status written = checkpoints.run();
  if (written.code() == ENOSPC || written.code() == EDQUOT) {
    return refuse(written.error(),
                  "there is no room for the repaired tree beside the old one: give the volume or the brick more space");
  }
  return written;
}

Status Repair::free_old_journal() {
  for (const BlockRange& block : old_journal_) TRY(space_->free_metadata(block));
  return {};
}

}  // namespace

Result<Findings> repair_filesystem(VolumeSet& volume, const Progress& progress, std::string* why) {
  why->clear();
  auto repairs = Repair(volume, progress, why).run();
  if (!repairs.ok() && why->empty()) *why = fmt::format("the repair was not finished: {}", repairs.error().what());
  return repairs;
}

}  // namespace brickfs
