// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/tree_repair.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fs/inode/inode_walk.h"
#include "fs/recovery/inode_salvage.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Area = Finding::Area;

constexpr std::string_view kLostAndFound = "lost+found";

class TreeRepair {
 public:
  TreeRepair(InodeTable& inodes, TimeNs time, Findings& repairs) : inodes_(inodes), time_(time), repairs_(repairs) {}
  void run();

 private:
  struct Name {
    Ino directory;
    std::string name;
  };

  void salvage_inodes();
  void mend_root();
  Inode& make_directory(Ino ino, uint32_t permissions);
  void mend_entries(Inode& directory);
  bool mend_entry(Inode& directory, const Name& entry);
  void mend_cookies(Inode& directory);
  void mend_orphans();
  void place_directories();
  void keep_one_name(Inode& directory, std::vector<Name>& names);
  void reach_from(Ino top);
  Ino one_of_circle_above(Ino directory) const;
  void place_files();
  void find_named();
  void mend_links();
  Ino free_number();
  Inode& lost_and_found();
  void move_to_lost_and_found(Inode& inode);
  void erase_name(const Name& name);
  template <typename Visit>
  void for_each_directory(Visit&& visit);
  void note(Area area, const Inode& inode, const std::string& what);

  InodeTable& inodes_;
  const TimeNs time_;
  Findings& repairs_;
  absl::flat_hash_set<uint64_t> named_;    // inodes that an entry means
  absl::flat_hash_set<uint64_t> reached_;  // directories, from the root
  Ino lost_and_found_ = kNoIno;
};

// The entries of a directory, which may change meanwhile.
std::vector<Directory::Entry> entries_of(const Inode& directory) {
  std::vector<Directory::Entry> entries;
  entries.reserve(directory.directory->size());
  directory.directory->for_each([&](const Directory::Entry& entry) { entries.push_back(entry); });
  return entries;
}

void TreeRepair::run() {
  salvage_inodes();
  mend_root();
  for_each_directory([this](Inode& directory) { mend_entries(directory); });
  mend_orphans();
  place_directories();
  place_files();
  mend_links();
}

void TreeRepair::note(Area area, const Inode& inode, const std::string& what) {
  repairs_.repair(area, inode.ino,
                  fmt::format("{} {}: {}", inode.is_directory() ? "directory" : "inode", raw(inode.ino), what));
}

template <typename Visit>
void TreeRepair::for_each_directory(Visit&& visit) {
  for_each_inode(inodes_, [&](const Inode& inode) {
    if (inode.is_directory()) visit(*inodes_.find(inode.ino));
  });
}

void TreeRepair::salvage_inodes() {
  std::vector<Ino> gone;
  for_each_inode(inodes_, [&](const Inode& inode) {
    if (!salvage_inode(*inodes_.find(inode.ino), time_, repairs_)) gone.push_back(inode.ino);
  });
  for (const Ino ino : gone) inodes_.erase(ino);
}

// --- root and lost+found

void TreeRepair::mend_root() {
  Inode* root = inodes_.find(kRootIno);
  if (root != nullptr && !root->is_directory()) {
    // Its contents live on under another number, which has no name yet.
    auto moved = std::make_unique<Inode>(free_number());
    move_contents(*root, *moved);
    note(Area::kInode, *moved, "had the root directory's number: it has another one now");
    inodes_.insert(std::move(moved));
    inodes_.erase(kRootIno);
    root = nullptr;
  }
  if (root == nullptr) {
    root = &make_directory(kRootIno, 0755);
    note(Area::kInode, *root, "there was no root directory: made anew");
  }
  if (root->parent != kRootIno) note(Area::kDirectory, *root, "is the root, but had a parent");
  root->parent = kRootIno;
  root->orphan = false;
}

// One that was never given, or (of a volume that has no more) one that nothing has.
Ino TreeRepair::free_number() {
  const auto number = inodes_.new_number();
  if (number.ok()) return *number;
  uint64_t unused = raw(kRootIno) + 1;
  while (inodes_.find(Ino{unused}) != nullptr) ++unused;
  return Ino{unused};
}

Inode& TreeRepair::make_directory(Ino ino, uint32_t permissions) {
  Inode& directory = *inodes_.insert(std::make_unique<Inode>(ino));
  directory.parent = kRootIno;
  directory.mode = S_IFDIR | permissions;
  directory.nlink = 2;
  directory.atime = directory.mtime = directory.ctime = directory.btime = time_;
  directory.directory = std::make_unique<Directory>();
  return directory;
}

Inode& TreeRepair::lost_and_found() {
  if (lost_and_found_ != kNoIno) return *inodes_.find(lost_and_found_);
  Directory& root = *inodes_.find(kRootIno)->directory;
  std::string name(kLostAndFound);
  for (int number = 1;; ++number) {
    const auto entry = root.find(name);
    if (!entry) break;
    Inode* const there = inodes_.find(entry->ino);
    if (there != nullptr && there->is_directory() && there->parent == kRootIno) {
      lost_and_found_ = entry->ino;
      return *there;
    }
    name = fmt::format("{}.{}", kLostAndFound, number);
  }
  Inode& made = make_directory(free_number(), 0700);
  root.insert(name, made.ino, made.dirent_type());
  reached_.insert(raw(made.ino));
  lost_and_found_ = made.ino;
  return made;
}

void TreeRepair::move_to_lost_and_found(Inode& inode) {
  Inode& directory = lost_and_found();
  std::string name = fmt::format("#{}", raw(inode.ino));
  for (int number = 1; directory.directory->find(name); ++number) name = fmt::format("#{}.{}", raw(inode.ino), number);
  directory.directory->insert(name, inode.ino, inode.dirent_type());
  if (inode.is_directory()) inode.parent = directory.ino;
  note(Area::kDirectory, inode, fmt::format("had no place in the tree: is /{}/{} now", kLostAndFound, name));
}

// --- names

void TreeRepair::mend_entries(Inode& directory) {
  mend_cookies(directory);
  std::vector<std::string> gone;
  for (const Directory::Entry& entry : entries_of(directory)) {
    const Name name{directory.ino, std::string(entry.name)};
    if (!mend_entry(directory, name)) gone.push_back(name.name);
  }
  for (const std::string& name : gone) directory.directory->erase(name);
}

// False: it has to go.
bool TreeRepair::mend_entry(Inode& directory, const Name& name) {
  const auto entry = directory.directory->find(name.name);
  const Inode* const named = inodes_.find(entry->ino);
  if (named == nullptr) {
    note(Area::kDirectory, directory,
         fmt::format("entry \"{}\" named inode {}, which does not exist: removed", name.name, raw(entry->ino)));
    return false;
  }
  if (named->ino == kRootIno) {
    note(Area::kDirectory, directory, fmt::format("entry \"{}\" named the root directory: removed", name.name));
    return false;
  }
  if (named->dirent_type() != entry->type) {
    directory.directory->replace(name.name, named->ino, named->dirent_type());
    note(Area::kDirectory, directory, fmt::format("entry \"{}\" had the wrong type", name.name));
  }
  return true;
}

void TreeRepair::mend_cookies(Inode& directory) {
  uint64_t before = Directory::kFirstCookie - 1;
  bool sound = true;
  for (const Directory::Entry& entry : entries_of(directory)) {
    sound = sound && entry.cookie > before;
    before = std::max(before, entry.cookie);
  }
  if (sound && before <= limits::kCookie / 2) return;  // names may be added to it
  auto numbered = std::make_unique<Directory>();
  for (const Directory::Entry& entry : entries_of(directory)) numbered->insert(entry.name, entry.ino, entry.type);
  directory.directory = std::move(numbered);
  note(Area::kDirectory, directory, "its entries are numbered anew");
}

// A name is worth more than the word that it was unlinked. What such a directory still holds loses its name.
void TreeRepair::mend_orphans() {
  find_named();
  for_each_inode(inodes_, [this](const Inode& found) {
    Inode& inode = *inodes_.find(found.ino);
    if (!inode.orphan) return;
    const bool named = named_.contains(raw(inode.ino));
    if (named || inode.nlink > 0) {
      inode.orphan = false;
      note(Area::kInode, inode, fmt::format("was to be deleted, but has {}: kept", named ? "a name" : "links"));
    } else if (inode.is_directory() && !inode.directory->empty()) {
      note(Area::kDirectory, inode,
           fmt::format("was removed with {} entries in it: they are kept", inode.directory->size()));
      inode.directory = std::make_unique<Directory>();
    }
  });
}

void TreeRepair::find_named() {
  named_.clear();
  for_each_directory([this](const Inode& directory) {
    directory.directory->for_each([this](const Directory::Entry& entry) { named_.insert(raw(entry.ino)); });
  });
}

// --- places

// Each directory under one name and reachable from the root.
void TreeRepair::place_directories() {
  absl::flat_hash_map<uint64_t, std::vector<Name>> names;
  for_each_directory([&](const Inode& directory) {
    for (const Directory::Entry& entry : entries_of(directory)) {
      if (inodes_.find(entry.ino)->is_directory())
        names[raw(entry.ino)].push_back({directory.ino, std::string(entry.name)});
    }
  });
  for_each_directory([&](Inode& directory) {
    const auto at = names.find(raw(directory.ino));
    if (at != names.end()) keep_one_name(directory, at->second);
  });
  reach_from(kRootIno);
  for_each_directory([&](Inode& directory) {
    if (directory.orphan || reached_.contains(raw(directory.ino)) || names.contains(raw(directory.ino))) return;
    move_to_lost_and_found(directory);
    reach_from(directory.ino);
  });
  // What is left hangs on circles.
  for_each_directory([&](Inode& directory) {
    if (directory.orphan || reached_.contains(raw(directory.ino))) return;
    Inode& opening = *inodes_.find(one_of_circle_above(directory.ino));
    erase_name(names[raw(opening.ino)].front());
    move_to_lost_and_found(opening);
    reach_from(opening.ino);
  });
}

// The one that the directory itself holds for its place; then `names` has only that.
void TreeRepair::keep_one_name(Inode& directory, std::vector<Name>& names) {
  const auto is_in_parent = [&](const Name& name) { return name.directory == directory.parent; };
  auto kept = std::ranges::find_if(names, is_in_parent);
  if (kept == names.end()) kept = names.begin();
  std::iter_swap(names.begin(), kept);
  for (size_t i = 1; i < names.size(); ++i) {
    erase_name(names[i]);
    note(Area::kDirectory, directory,
         fmt::format("had {} names: \"{}\" in directory {} is removed", names.size(), names[i].name,
                     raw(names[i].directory)));
  }
  names.resize(1);
  if (is_in_parent(names[0])) return;
  note(Area::kDirectory, directory,
       fmt::format("is in directory {}, but said that it is in {}: corrected", raw(names[0].directory),
                   raw(directory.parent)));
  directory.parent = names[0].directory;
}

void TreeRepair::erase_name(const Name& name) { inodes_.find(name.directory)->directory->erase(name.name); }

void TreeRepair::reach_from(Ino top) {
  std::vector<Ino> queue{top};
  reached_.insert(raw(top));
  for (size_t next = 0; next < queue.size(); ++next) {
    inodes_.find(queue[next])->directory->for_each([&](const Directory::Entry& entry) {
      if (inodes_.find(entry.ino)->is_directory() && reached_.insert(raw(entry.ino)).second) queue.push_back(entry.ino);
    });
  }
}

// Up from a directory that the root does not reach.
Ino TreeRepair::one_of_circle_above(Ino directory) const {
  absl::flat_hash_set<uint64_t> seen;
  while (seen.insert(raw(directory)).second) directory = inodes_.find(directory)->parent;
  return directory;
}

void TreeRepair::place_files() {
  find_named();
  for_each_inode(inodes_, [this](const Inode& inode) {
    if (inode.is_directory() || inode.orphan || named_.contains(raw(inode.ino))) return;
    move_to_lost_and_found(*inodes_.find(inode.ino));
  });
}

void TreeRepair::mend_links() {
  absl::flat_hash_map<uint64_t, uint32_t> links;
  for_each_directory([&](const Inode& directory) {
    uint32_t& own = links[raw(directory.ino)];
    if (!directory.orphan) own += 2;
    directory.directory->for_each([&](const Directory::Entry& entry) {
      ++links[raw(inodes_.find(entry.ino)->is_directory() ? directory.ino : entry.ino)];
    });
  });
  for_each_inode(inodes_, [&](const Inode& found) {
    const auto at = links.find(raw(found.ino));
    const uint32_t right = at == links.end() ? 0 : at->second;
    if (found.nlink == right) return;
    note(Area::kInode, found, fmt::format("link count {} corrected to {}", found.nlink, right));
    inodes_.find(found.ino)->nlink = right;
  });
}

}  // namespace

void repair_tree(InodeTable& inodes, TimeNs time, Findings& repairs) { TreeRepair(inodes, time, repairs).run(); }

}  // namespace brickfs
