// SPDX-License-Identifier: Apache-2.0
// What a mounted file system consists of; each group of operations (namespace_ops, attribute_ops, file_ops ...) is a set of
// members of Filesystem::Impl, in a source file of its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "fs/filesystem.h"
#include "fs/inode_table.h"
#include "fs/journal.h"
#include "fs/range_lock.h"
#include "fs/space.h"
#include "transport/base/mutex.h"

namespace brickfs {

class CheckpointThread;  // fs/checkpoint_thread.h

class Filesystem::Impl {
 public:
  // Synchronised by themselves. Destroyed in reverse order: the checkpoint thread first, the volume last.
  std::unique_ptr<VolumeClient> volume;
  std::unique_ptr<Space> space;
  std::unique_ptr<Journal> journal;        // null on a read-only mount
  InodeTable inodes;
  RangeLocks ranges;
  std::unique_ptr<CheckpointThread> checkpoints;  // null on a read-only mount

  // Fixed after mount.
  MountOptions options;
  bool read_only = false;

  // Taken before any inode lock by a rename that moves a directory to another parent: keeps ancestors in place.
  Mutex rename_mutex;

  // EROFS, or the journal's error; else waits for room in the journal. The first thing every change does.
  Status admit_change();
  // Under exclusive locks of all inodes concerned. The inode's row goes into `transaction`.
  void put_inode(Transaction& transaction, Inode& inode);
  // Deletes an inode that has no link and no reference: its rows, extents, memory. Under its exclusive lock; the pointer dies.
  void delete_inode(Inode& inode);
  Attributes attributes_of(const Inode& inode) const;   // under its lock, shared or not
};

TimeNs now();  // of the real-time clock, as the kernel stamps (coarse)

}  // namespace brickfs
