// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/inode_paths.h"

#include <utility>

#include "fs/inode/inode_walk.h"

namespace brickfs {
namespace {

using NameInParent = std::pair<Ino, std::string>;  // directory, name in it

// Empty if the root does not reach it.
std::string path_of(uint64_t ino, const absl::flat_hash_map<uint64_t, NameInParent>& places) {
  std::string path;
  for (size_t depth = 0; ino != raw(kRootIno); ++depth) {
    const auto at = places.find(ino);
    if (at == places.end() || depth > places.size()) return {};
    path = "/" + at->second.second + path;
    ino = raw(at->second.first);
  }
  return path.empty() ? "/" : path;
}

}  // namespace

absl::flat_hash_map<uint64_t, std::string> paths_of(const InodeTable& inodes,
                                                    const absl::flat_hash_set<uint64_t>& wanted) {
  absl::flat_hash_map<uint64_t, std::string> paths;
  if (wanted.empty()) return paths;
  absl::flat_hash_map<uint64_t, NameInParent> places;
  for_each_inode(inodes, [&](const Inode& directory) {
    if (!directory.is_directory() || directory.directory == nullptr) return;
    directory.directory->for_each([&](const Directory::Entry& entry) {
      const Inode* const named = inodes.find(entry.ino);
      const bool is_directory = named != nullptr && named->is_directory();
      if (is_directory || wanted.contains(raw(entry.ino))) {
        places.try_emplace(raw(entry.ino), directory.ino, std::string(entry.name));
      }
    });
  });
  for (const uint64_t ino : wanted) {
    if (std::string path = path_of(ino, places); !path.empty()) paths.emplace(ino, std::move(path));
  }
  return paths;
}

}  // namespace brickfs
