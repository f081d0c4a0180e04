// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/serving_rules.h"

#include <fmt/core.h>

#include <string>

#include "fs/inode/inode_walk.h"

namespace brickfs {
namespace {

using Area = Finding::Area;

class ServingRules {
 public:
  ServingRules(const InodeTable& inodes, Findings& findings) : inodes_(inodes), findings_(findings) {}
  void judge(const Inode& inode);

 private:
  void judge_entries(const Inode& directory);
  void judge_subdirectory(const Inode& directory, const Directory::Entry& entry, const Inode& named);
  void damage(Area area, const Inode& inode, const std::string& what) {
    findings_.damage(area, inode.ino, 0,
                     fmt::format("{} {}: {}", inode.is_directory() ? "directory" : "inode", raw(inode.ino), what));
  }

  const InodeTable& inodes_;
  Findings& findings_;
};

void ServingRules::judge(const Inode& inode) {
  if (inode.orphan && inode.nlink > 0)
    damage(Area::kInode, inode, fmt::format("unlinked, but has {} link(s)", inode.nlink));
  if (!inode.orphan && inode.nlink == 0) damage(Area::kInode, inode, "has no link, and is not to be deleted either");
  if (inode.ino == kRootIno && inode.orphan) damage(Area::kInode, inode, "is the root, but is to be deleted");
  if (inode.ino == kRootIno && inode.parent != kRootIno)
    damage(Area::kDirectory, inode, "is the root, but has a parent");
  if (!inode.is_directory()) return;
  if (inode.orphan && !inode.directory->empty()) damage(Area::kDirectory, inode, "removed, but not empty");
  judge_entries(inode);
}

void ServingRules::judge_entries(const Inode& directory) {
  uint64_t subdirectories = 0;
  uint64_t sharing = 0;  // a cookie with the entry before: a listing shows one of them
  uint64_t cookie = 0;
  directory.directory->for_each([&](const Directory::Entry& entry) {
    sharing += entry.cookie == cookie;
    cookie = entry.cookie;
    const Inode* const named = inodes_.find(entry.ino);
    if (named == nullptr) {
      return damage(Area::kDirectory, directory,
                    fmt::format("entry \"{}\" names inode {}, which does not exist", entry.name, raw(entry.ino)));
    }
    if (named->dirent_type() != entry.type) {
      damage(Area::kDirectory, directory,
             fmt::format("entry \"{}\" says type {}, inode {} has mode {:o}", entry.name, entry.type, raw(entry.ino),
                         named->mode));
    }
    if (named->orphan) {
      damage(Area::kDirectory, directory,
             fmt::format("entry \"{}\" names inode {}, which is unlinked", entry.name, raw(entry.ino)));
    }
    if (!named->is_directory()) return;
    ++subdirectories;
    judge_subdirectory(directory, entry, *named);
  });
  if (sharing > 0) {
    damage(Area::kDirectory, directory,
           fmt::format("{} of {} entries share a cookie", sharing, directory.directory->size()));
  }
  if (!directory.orphan && directory.nlink != 0 && directory.nlink != subdirectories + 2) {
    damage(Area::kDirectory, directory,
           fmt::format("link count {}, but it has {} subdirectories", directory.nlink, subdirectories));
  }
}

// With these no way up from a directory runs in a circle that the root reaches.
void ServingRules::judge_subdirectory(const Inode& directory, const Directory::Entry& entry, const Inode& named) {
  if (named.ino == kRootIno) {
    damage(Area::kDirectory, directory, fmt::format("entry \"{}\" names the root directory", entry.name));
  } else if (named.parent != directory.ino) {
    damage(Area::kDirectory, named,
           fmt::format("is in directory {}, but says that it is in {}", raw(directory.ino), raw(named.parent)));
  }
}

}  // namespace

void judge_for_serving(const InodeTable& inodes, Findings& findings) {
  ServingRules rules(inodes, findings);
  for_each_inode(inodes, [&rules](const Inode& inode) { rules.judge(inode); });
}

}  // namespace brickfs
