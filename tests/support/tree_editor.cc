// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tree_editor.h"

#include <gtest/gtest.h>

#include "fs/inode/inode_walk.h"
#include "fs/persistence/checkpoint.h"
#include "fs/recovery/make.h"
#include "fs/recovery/recovery.h"

namespace brickfs {
namespace {

// All rows at once.
class EditedRows final : public RowSource {
 public:
  explicit EditedRows(const EditedTree& tree) : tree_(tree) {}
  bool next(Transaction& out, size_t) override {
    for_each_inode(tree_.inodes, [&](const Inode& inode) { put(inode, out); });
    return false;
  }

 private:
  void put(const Inode& inode, Transaction& out) const {
    if (!tree_.without_row.contains(raw(inode.ino))) out.put(inode.row());
    if (inode.directory != nullptr) {
      inode.directory->for_each([&](const Directory::Entry& entry) {
        out.put(DirentRow{inode.ino, entry.name, entry.ino, entry.type, entry.cookie});
      });
    }
    if (inode.extents != nullptr) {
      for (auto extent = inode.extents->at_or_after(0); extent; extent = inode.extents->at_or_after(extent->end())) {
        out.put(ExtentRow{inode.ino, extent->file_unit, extent->count, extent->volume_unit, extent->unwritten});
      }
    }
    if (inode.xattrs != nullptr) {
      for (const auto& [name, value] : *inode.xattrs) out.put(XattrRow{inode.ino, name, value});
    }
    if (inode.orphan) out.put_orphan(inode.ino);
  }

  const EditedTree& tree_;
};

Status write_rows(VolumeSet& volume, SuperblockSlots& slots, Superblock superblock, const RecoveredVolume& was,
                  const EditedTree& tree) {
  Space space(volume);
  for (const MetadataBlocks& part : was.metadata) TRY(space.adopt_metadata(part.blocks));
  TRY(space.start(was.blocks.kept, {.blocks = was.blocks.leaked, .are_zeros = false},
                  {.durable = [] { return Lsn{0}; }, .make_durable = [](const Interruption*) { return Status(); }}));
  CheckpointWriter writer(volume, space, superblock.seed(), superblock.generation + 1, 0);
  EditedRows rows(tree);
  TRY(writer.add_all(rows));
  superblock.checkpoint = TRY(writer.finish());
  TRY(space.stop());
  TRY(volume.commit());
  return slots.write(superblock);
}

}  // namespace

void edit_tree(VolumeSet& volume, const std::function<void(EditedTree&)>& edit) {
  const auto listed = volume.list();
  ASSERT_TRUE(listed.ok());
  SuperblockSlots slots(volume);
  const auto head = read_head(volume, slots, *listed);
  ASSERT_TRUE(head.ok() && head->kind == VolumeHead::Kind::kMade);
  InodeTable inodes;
  std::string why;
  const auto recovered = recover(volume, head->superblock.superblock, *listed, inodes, {}, &why);
  ASSERT_TRUE(recovered.ok()) << why;
  EditedTree tree{inodes, {}};
  edit(tree);
  ASSERT_TRUE(write_rows(volume, slots, head->superblock.superblock, *recovered, tree).ok());
  ASSERT_TRUE(write_mark(volume, Mark::kNone).ok());
}

}  // namespace brickfs
