// SPDX-License-Identifier: Apache-2.0
// Damages the file system on a volume as tests want it: its tree is read, changed in memory without any of the file
// system's rules, and written back as a checkpoint that verifies.
#pragma once

#include <functional>

#include "absl/container/flat_hash_set.h"
#include "fs/inode/inode_table.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

struct EditedTree {
  InodeTable& inodes;
  absl::flat_hash_set<uint64_t> without_row;  // their own rows are left out

  Inode& at(uint64_t ino) { return *inodes.find(Ino{ino}); }
};

// The volume must have been unmounted in order. Fails the test if it cannot.
void edit_tree(VolumeSet& volume, const std::function<void(EditedTree&)>& edit);

}  // namespace brickfs
