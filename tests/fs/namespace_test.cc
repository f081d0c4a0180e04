// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/mounted_volume.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Names = std::vector<std::string>;

Names list(Filesystem& filesystem, Ino directory) {
  Names names;
  EXPECT_TRUE(filesystem
                  .read_directory(directory, 0, false,
                                  [&](const DirectoryEntry& entry) {
                                    names.emplace_back(entry.name);
                                    return true;
                                  })
                  .ok());
  return names;
}

Attributes make_file(Filesystem& filesystem, Ino directory, std::string_view name) {
  auto made = filesystem.create(directory, name, 0644, root_caller());
  EXPECT_TRUE(made.ok()) << name << ": " << made.error().what();
  return made.ok() ? *made : Attributes{};
}

Attributes make_directory(Filesystem& filesystem, Ino directory, std::string_view name) {
  auto made = filesystem.make_directory(directory, name, 0755, root_caller());
  EXPECT_TRUE(made.ok()) << name << ": " << made.error().what();
  return made.ok() ? *made : Attributes{};
}

TEST(Namespace, NewFileIsFoundAndKeptOverMounts) {
  MountedVolume volume;
  const Attributes made = make_file(*volume, kRootIno, "a file");
  EXPECT_EQ(made.mode, S_IFREG | 0644u);
  EXPECT_EQ(made.nlink, 1u);
  EXPECT_EQ(made.size_bytes, 0u);
  ASSERT_TRUE(volume->lookup(kRootIno, "a file").ok());
  EXPECT_EQ(volume->lookup(kRootIno, "a file")->ino, made.ino);
  EXPECT_EQ(volume->lookup(kRootIno, "a fil").code(), ENOENT);
  EXPECT_EQ(volume->lookup(made.ino, "x").code(), ENOTDIR);

  volume.unmount_and_mount();
  const auto found = volume->lookup(kRootIno, "a file");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->ino, made.ino);
  EXPECT_EQ(found->mtime, made.mtime);
  EXPECT_EQ(found->btime, made.btime);
}

TEST(Namespace, SyncedNamesSurviveACrash) {
  MountedVolume volume;
  const Attributes folder = make_directory(*volume, kRootIno, "folder");
  make_file(*volume, folder.ino, "file");
  ASSERT_TRUE(volume->make_symlink(folder.ino, "link", "some/where", root_caller()).ok());
  ASSERT_TRUE(volume->make_node(folder.ino, "device", S_IFBLK | 0600, 0x0801, root_caller()).ok());
  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();
  EXPECT_EQ(list(*volume, folder.ino), (Names{".", "..", "file", "link", "device"}));
  const auto device = stat_path(*volume, "folder/device");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->mode, S_IFBLK | 0600u);
  EXPECT_EQ(device->rdev, 0x0801u);
  const auto link = stat_path(*volume, "folder/link");
  ASSERT_TRUE(link.ok());
  EXPECT_EQ(link->size_bytes, 10u);
  EXPECT_EQ(*volume->read_symlink(link->ino), "some/where");
  EXPECT_EQ(volume->read_symlink(device->ino).code(), EINVAL);
  EXPECT_EQ(stat_path(*volume, "")->nlink, 3u);
}

TEST(Namespace, BadNamesAreRefused) {
  MountedVolume volume;
  const std::string longest(limits::kNameBytes, 'n');
  EXPECT_TRUE(volume->create(kRootIno, longest, 0644, root_caller()).ok());
  EXPECT_EQ(volume->create(kRootIno, longest, 0644, root_caller()).code(), EEXIST);
  EXPECT_EQ(volume->create(kRootIno, longest + "n", 0644, root_caller()).code(), ENAMETOOLONG);
  EXPECT_EQ(volume->lookup(kRootIno, longest + "n").code(), ENAMETOOLONG);
  EXPECT_EQ(volume->unlink(kRootIno, longest + "n").code(), ENAMETOOLONG);
  EXPECT_EQ(volume->rename(kRootIno, longest, kRootIno, longest + "n", Rename::kReplace).code(), ENAMETOOLONG);
  EXPECT_EQ(volume->create(kRootIno, "", 0644, root_caller()).code(), ENOENT);
  EXPECT_EQ(volume->create(kRootIno, "..", 0644, root_caller()).code(), EEXIST);
  EXPECT_EQ(volume->create(kRootIno, "a/b", 0644, root_caller()).code(), EINVAL);
  EXPECT_EQ(volume->create(kRootIno, std::string_view("a\0b", 3), 0644, root_caller()).code(), EINVAL);
  EXPECT_EQ(volume->make_symlink(kRootIno, "s", "", root_caller()).code(), ENOENT);
  EXPECT_EQ(volume->make_symlink(kRootIno, "s", std::string(4096, 't'), root_caller()).code(), ENAMETOOLONG);
  EXPECT_TRUE(volume->make_symlink(kRootIno, "s", std::string(4095, 't'), root_caller()).ok());
  EXPECT_EQ(volume->make_node(kRootIno, "d", S_IFDIR | 0755, 0, root_caller()).code(), EINVAL);
}

TEST(Namespace, DotsAreTheDirectoryAndItsParent) {
  MountedVolume volume;
  const Attributes outer = make_directory(*volume, kRootIno, "outer");
  const Attributes inner = make_directory(*volume, outer.ino, "inner");
  EXPECT_EQ(volume->lookup(inner.ino, ".")->ino, inner.ino);
  EXPECT_EQ(volume->lookup(inner.ino, "..")->ino, outer.ino);
  EXPECT_EQ(volume->lookup(kRootIno, "..")->ino, kRootIno);
}

TEST(Namespace, DirectoriesCountTheirChildren) {
  MountedVolume volume;
  const Attributes outer = make_directory(*volume, kRootIno, "outer");
  EXPECT_EQ(outer.nlink, 2u);
  make_directory(*volume, outer.ino, "one");
  make_directory(*volume, outer.ino, "two");
  make_file(*volume, outer.ino, "file");
  EXPECT_EQ(volume->get_attributes(outer.ino)->nlink, 4u);
  EXPECT_EQ(volume->remove_directory(kRootIno, "outer").code(), ENOTEMPTY);
  EXPECT_EQ(volume->remove_directory(outer.ino, "file").code(), ENOTDIR);
  EXPECT_EQ(volume->unlink(outer.ino, "one").code(), EISDIR);
  EXPECT_EQ(volume->remove_directory(outer.ino, "three").code(), ENOENT);
  EXPECT_TRUE(volume->remove_directory(outer.ino, "one").ok());
  EXPECT_EQ(volume->get_attributes(outer.ino)->nlink, 3u);
}

TEST(Namespace, NothingIsMadeInARemovedDirectory) {
  MountedVolume volume;
  const Attributes folder = make_directory(*volume, kRootIno, "folder");  // and a reference
  const Attributes file = make_file(*volume, kRootIno, "file");
  ASSERT_TRUE(volume->remove_directory(kRootIno, "folder").ok());
  EXPECT_EQ(volume->get_attributes(folder.ino)->nlink, 0u);
  EXPECT_EQ(volume->create(folder.ino, "x", 0644, root_caller()).code(), ENOENT);
  EXPECT_EQ(volume->make_directory(folder.ino, "x", 0755, root_caller()).code(), ENOENT);
  EXPECT_EQ(volume->make_temporary(folder.ino, 0644, root_caller()).code(), ENOENT);
  EXPECT_EQ(volume->link(file.ino, folder.ino, "x").code(), ENOENT);
  EXPECT_EQ(volume->rename(kRootIno, "file", folder.ino, "x", Rename::kReplace).code(), ENOENT);
  volume->forget(folder.ino, 1);
  EXPECT_EQ(volume->get_attributes(folder.ino).code(), ESTALE);
}

TEST(Namespace, HardLinksShareTheInode) {
  MountedVolume volume;
  const Attributes file = make_file(*volume, kRootIno, "one");
  const Attributes folder = make_directory(*volume, kRootIno, "folder");
  const auto linked = volume->link(file.ino, folder.ino, "two");
  ASSERT_TRUE(linked.ok());
  EXPECT_EQ(linked->ino, file.ino);
  EXPECT_EQ(linked->nlink, 2u);
  EXPECT_EQ(volume->link(file.ino, folder.ino, "two").code(), EEXIST);
  EXPECT_EQ(volume->link(folder.ino, kRootIno, "again").code(), EPERM);
  ASSERT_TRUE(volume->unlink(kRootIno, "one").ok());
  EXPECT_EQ(volume->get_attributes(file.ino)->nlink, 1u);
  volume.unmount_and_mount();
  EXPECT_EQ(stat_path(*volume, "folder/two")->nlink, 1u);
}

TEST(Namespace, UnlinkedFileLivesUntilItIsForgotten) {
  MountedVolume volume;
  const Attributes file = make_file(*volume, kRootIno, "file");
  ASSERT_TRUE(volume->lookup(kRootIno, "file").ok());
  ASSERT_TRUE(volume->unlink(kRootIno, "file").ok());
  EXPECT_EQ(volume->get_attributes(file.ino)->nlink, 0u);
  EXPECT_EQ(volume->link(file.ino, kRootIno, "back").code(), ENOENT);
  volume->forget(file.ino, 1);
  EXPECT_TRUE(volume->get_attributes(file.ino).ok());
  volume->forget(file.ino, 1);
  EXPECT_EQ(volume->get_attributes(file.ino).code(), ESTALE);
  EXPECT_EQ(volume->link(file.ino, kRootIno, "back").code(), ENOENT);
  EXPECT_EQ(volume->stat().inodes, 1u);
  volume->forget(file.ino, 1);  // nothing there to harm
}

TEST(Namespace, OrphansAreGoneAfterACrash) {
  MountedVolume volume;
  const Attributes file = make_file(*volume, kRootIno, "file");
  const auto temporary = volume->make_temporary(kRootIno, 0600, root_caller());
  ASSERT_TRUE(temporary.ok());
  ASSERT_TRUE(volume->unlink(kRootIno, "file").ok());
  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();
  EXPECT_EQ(volume->get_attributes(file.ino).code(), ESTALE);
  EXPECT_EQ(volume->get_attributes(temporary->ino).code(), ESTALE);
  EXPECT_EQ(volume->stat().inodes, 1u);
}

TEST(Namespace, TemporaryFileGetsAName) {
  MountedVolume volume;
  const auto temporary = volume->make_temporary(kRootIno, 0600, root_caller());
  ASSERT_TRUE(temporary.ok());
  EXPECT_EQ(temporary->nlink, 0u);
  EXPECT_EQ(list(*volume, kRootIno), (Names{".", ".."}));
  const auto linked = volume->link(temporary->ino, kRootIno, "named");
  ASSERT_TRUE(linked.ok());
  EXPECT_EQ(linked->nlink, 1u);
  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();
  EXPECT_EQ(volume->lookup(kRootIno, "named")->ino, temporary->ino);
}

TEST(Namespace, InodeNumbersAreNotGivenTwice) {
  MountedVolume volume;
  std::set<Ino> seen;
  for (int round = 0; round < 4; ++round) {
    const Attributes file = make_file(*volume, kRootIno, "file");
    EXPECT_TRUE(seen.insert(file.ino).second) << "round " << round;
    ASSERT_TRUE(volume->unlink(kRootIno, "file").ok());
    volume->forget(file.ino, 1);
    if (round % 2 == 0) {
      ASSERT_TRUE(volume->sync_all().ok());
      volume.crash_and_mount();
    } else {
      volume.unmount_and_mount();
    }
  }
}

TEST(Namespace, ReadOnlyMountChangesNothing) {
  MountedVolume volume;
  const Attributes file = make_file(*volume, kRootIno, "file");
  ASSERT_TRUE(volume.unmount().ok());
  volume.options().mount.read_only = true;
  ASSERT_TRUE(volume.mount().ok());
  EXPECT_TRUE(volume->read_only());
  EXPECT_EQ(volume->create(kRootIno, "x", 0644, root_caller()).code(), EROFS);
  EXPECT_EQ(volume->unlink(kRootIno, "file").code(), EROFS);
  EXPECT_EQ(volume->rename(kRootIno, "file", kRootIno, "x", Rename::kReplace).code(), EROFS);
  EXPECT_EQ(volume->set_attributes(file.ino, {.mode = 0600}, root_caller()).code(), EROFS);
  EXPECT_EQ(volume->set_xattr(file.ino, "user.x", {}, 0, root_caller()).code(), EROFS);
  ASSERT_TRUE(volume->lookup(kRootIno, "file").ok());
  EXPECT_EQ(list(*volume, kRootIno), (Names{".", "..", "file"}));
  volume->forget(file.ino, 1);
}

TEST(Namespace, ReadingGoesOnFromAnyOffset) {
  MountedVolume volume;
  const Attributes folder = make_directory(*volume, kRootIno, "folder");
  std::set<std::string> expected{".", ".."};
  for (int i = 0; i < 300; ++i) {
    const std::string name = "file" + std::to_string(i);
    make_file(*volume, folder.ino, name);
    expected.insert(name);
  }
  for (const bool plus : {false, true}) {
    std::set<std::string> seen;
    uint64_t offset = 0;
    for (bool more = true; more;) {
      int room = 7;
      more = false;
      const auto visit = [&](const DirectoryEntry& entry) {
        EXPECT_EQ(entry.attributes != nullptr, plus && entry.name[0] != '.');
        if (entry.attributes != nullptr) {
          EXPECT_EQ(entry.attributes->ino, entry.ino);
        }
        if (room-- == 0) {
          more = true;
          return false;
        }
        EXPECT_TRUE(seen.emplace(entry.name).second) << entry.name;
        offset = entry.next_offset;
        return true;
      };
      ASSERT_TRUE(volume->read_directory(folder.ino, offset, plus, visit).ok());
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST(Namespace, AListingEndsWithWhatWasThereWhenItBegan) {
  MountedVolume volume;
  const Attributes folder = make_directory(*volume, kRootIno, "folder");
  constexpr int kFiles = 50;
  for (int i = 0; i < kFiles; ++i) make_file(*volume, folder.ino, std::to_string(i));
  for (const bool plus : {false, true}) {
    std::vector<std::string> seen;
    uint64_t offset = 0;
    bool more = true;
    const auto visit_one = [&](const DirectoryEntry& entry) {
      if (more) return false;
      seen.emplace_back(entry.name);
      offset = entry.next_offset;
      return more = true;
    };
    while (more && seen.size() < 1000) {  // a name at a time, which is renamed there and back
      more = false;
      ASSERT_TRUE(volume->read_directory(folder.ino, offset, plus, visit_one).ok());
      if (!more || seen.back()[0] == '.') continue;
      ASSERT_TRUE(volume->rename(folder.ino, seen.back(), folder.ino, "TMP", Rename::kReplace).ok());
      ASSERT_TRUE(volume->rename(folder.ino, "TMP", folder.ino, seen.back(), Rename::kReplace).ok());
    }
    EXPECT_EQ(seen.size(), kFiles + 2u) << (plus ? "plus" : "");
    size_t again = 0;
    const auto count = [&again](const DirectoryEntry&) { return ++again > 0; };
    ASSERT_TRUE(volume->read_directory(folder.ino, 0, plus, count).ok());
    EXPECT_EQ(again, kFiles + 2u) << "what was renamed is there from the start";
  }
}

TEST(Namespace, ReadingPlusCountsReferencesOfWhatWasTaken) {
  MountedVolume volume;
  const Attributes taken = make_file(*volume, kRootIno, "taken");
  const Attributes left = make_file(*volume, kRootIno, "left");
  const auto visit = [](const DirectoryEntry& entry) { return entry.name != "left"; };
  ASSERT_TRUE(volume->read_directory(kRootIno, 0, true, visit).ok());
  for (const Ino ino : {taken.ino, left.ino}) volume->forget(ino, 1);
  ASSERT_TRUE(volume->unlink(kRootIno, "taken").ok());
  ASSERT_TRUE(volume->unlink(kRootIno, "left").ok());
  EXPECT_TRUE(volume->get_attributes(taken.ino).ok());
  EXPECT_EQ(volume->get_attributes(left.ino).code(), ESTALE);
}

TEST(Namespace, ChangesStampTheDirectory) {
  MountedVolume volume;
  const Attributes folder = make_directory(*volume, kRootIno, "folder");
  const auto age = [&](Ino ino) {
    const AttributeChange old{.atime = TimeNs{1}, .mtime = TimeNs{1}, .ctime = TimeNs{1}};
    EXPECT_TRUE(volume->set_attributes(ino, old, root_caller()).ok());
  };
  const auto is_stamped = [&](Ino ino) {
    const auto attributes = volume->get_attributes(ino);
    return attributes->mtime > TimeNs{1} && attributes->ctime > TimeNs{1};
  };
  age(folder.ino);
  const Attributes file = make_file(*volume, folder.ino, "file");
  EXPECT_TRUE(is_stamped(folder.ino));
  age(folder.ino);
  age(file.ino);
  ASSERT_TRUE(volume->link(file.ino, folder.ino, "link").ok());
  EXPECT_TRUE(is_stamped(folder.ino));
  EXPECT_EQ(volume->get_attributes(file.ino)->mtime, TimeNs{1});
  EXPECT_GT(volume->get_attributes(file.ino)->ctime, TimeNs{1});
  age(folder.ino);
  age(file.ino);
  ASSERT_TRUE(volume->unlink(folder.ino, "link").ok());
  EXPECT_TRUE(is_stamped(folder.ino));
  EXPECT_GT(volume->get_attributes(file.ino)->ctime, TimeNs{1});
}

TEST(Namespace, SetGroupDirectoriesPassTheirGroupOn) {
  MountedVolume volume;
  const Attributes folder = make_directory(*volume, kRootIno, "folder");
  ASSERT_TRUE(volume->set_attributes(folder.ino, {.mode = 02777, .gid = 50}, root_caller()).ok());
  const Caller caller = user_caller(1000, 1000, 022);
  const auto file = volume->create(folder.ino, "file", 02775, caller);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->gid, 50u);
  EXPECT_EQ(file->uid, 1000u);
  EXPECT_EQ(file->mode, S_IFREG | 0755u) << "umask, and no set-group-id for a group that the caller is not in";
  const auto inner = volume->make_directory(folder.ino, "inner", 0777, caller);
  ASSERT_TRUE(inner.ok());
  EXPECT_EQ(inner->gid, 50u);
  EXPECT_EQ(inner->mode, S_IFDIR | 02755u);
  EXPECT_EQ(volume->create(kRootIno, "elsewhere", 0666, caller)->gid, 1000u);
}

}  // namespace
}  // namespace brickfs
