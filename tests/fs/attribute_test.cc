// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <string>

#include "tests/support/acl_bytes.h"
#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

class AttributeOps : public ::testing::Test {
 protected:
  AttributeOps() : file_(volume_->create(kRootIno, "file", 0644, root_caller())->ino) {}

  uint32_t mode() { return volume_->get_attributes(file_)->mode & 07777; }
  void set(const AttributeChange& change, const Caller& caller = root_caller()) {
    EXPECT_TRUE(volume_->set_attributes(file_, change, caller).ok());
  }

  MountedVolume volume_;
  Ino file_;
};

TEST_F(AttributeOps, AllOfThemAreKept) {
  set({.mode = 04751, .uid = 12, .gid = 34});
  set({.mode = 04751, .atime = TimeNs{-5}, .mtime = TimeNs{1'234'567'890'123'456'789}, .ctime = TimeNs{77}});
  ASSERT_TRUE(volume_->sync(file_).ok());
  volume_.crash_and_mount();
  const auto attributes = volume_->get_attributes(file_);
  ASSERT_TRUE(attributes.ok());
  EXPECT_EQ(attributes->mode, S_IFREG | 04751u);
  EXPECT_EQ(attributes->uid, 12u);
  EXPECT_EQ(attributes->gid, 34u);
  EXPECT_EQ(attributes->atime, TimeNs{-5});
  EXPECT_EQ(attributes->mtime, TimeNs{1'234'567'890'123'456'789});
  EXPECT_EQ(attributes->ctime, TimeNs{77});
}

TEST_F(AttributeOps, ModeKeepsTheType) {
  set({.mode = S_IFDIR | 0600});
  EXPECT_EQ(volume_->get_attributes(file_)->mode, S_IFREG | 0600u);
}

TEST_F(AttributeOps, ChangesStampCtimeOnly) {
  set({.mtime = TimeNs{5}, .ctime = TimeNs{5}});
  set({.mode = 0600});
  EXPECT_GT(volume_->get_attributes(file_)->ctime, TimeNs{5});
  EXPECT_EQ(volume_->get_attributes(file_)->mtime, TimeNs{5});
}

TEST_F(AttributeOps, AreToldOncePerAnswer) {
  const auto folder = volume_->make_directory(kRootIno, "folder", 0755, root_caller());
  EXPECT_TRUE(volume_->take_told(folder->ino)) << "by the answer to its making";
  EXPECT_FALSE(volume_->take_told(folder->ino));
  ASSERT_TRUE(volume_->create(folder->ino, "x", 0644, root_caller()).ok());
  EXPECT_FALSE(volume_->take_told(folder->ino)) << "what is made in it says nothing about it";
  ASSERT_TRUE(volume_->read_directory(kRootIno, 0, true, [](const DirectoryEntry&) { return true; }).ok());
  EXPECT_TRUE(volume_->take_told(folder->ino)) << "by a listing of where it is";
  ASSERT_TRUE(volume_->lookup(kRootIno, "folder").ok());
  EXPECT_TRUE(volume_->take_told(folder->ino));
  EXPECT_FALSE(volume_->take_told(Ino{1'000'000}));
}

TEST_F(AttributeOps, WhoAsksAgainHasHadHisAnswer) {
  const auto told_after = [&](uint32_t first, uint32_t second, uint32_t changes) {
    for (const uint32_t thread : {first, second}) {
      EXPECT_TRUE(volume_->get_attributes(file_, {.thread = thread}).ok());
    }
    return volume_->take_told(file_, {.thread = changes});
  };
  volume_->take_told(file_);
  EXPECT_FALSE(told_after(7, 7, 7));
  EXPECT_TRUE(told_after(7, 7, 8));
  EXPECT_TRUE(told_after(7, 8, 7));
  EXPECT_TRUE(told_after(7, 8, 8));
  EXPECT_TRUE(told_after(0, 0, 0)) << "nobody knows whether they are one";
  EXPECT_FALSE(volume_->take_told(file_));
}

TEST_F(AttributeOps, RenamesSayWhatTheyStamped) {
  const Ino other = volume_->create(kRootIno, "other", 0644, root_caller())->ino;
  const auto exchanged = volume_->rename(kRootIno, "file", kRootIno, "other", Rename::kExchange);
  EXPECT_EQ(exchanged->moved, file_);
  EXPECT_EQ(exchanged->exchanged, other);
  const auto replaced = volume_->rename(kRootIno, "file", kRootIno, "other", Rename::kReplace);
  EXPECT_EQ(replaced->moved, other);
  EXPECT_EQ(replaced->exchanged, kNoIno);
}

TEST_F(AttributeOps, ChownTakesPrivilegesAway) {
  set({.mode = 06755});
  set({.uid = 5});
  EXPECT_EQ(mode(), 0755u);
  set({.mode = 06745});
  set({.gid = 5});
  EXPECT_EQ(mode(), 02745u) << "set-group-id without group execution is a lock";
}

TEST_F(AttributeOps, KillingPrivilegesTakesCapabilitiesToo) {
  const std::byte value[4] = {};
  ASSERT_TRUE(volume_->set_xattr(file_, "security.capability", value, 0, root_caller()).ok());
  set({.mode = 06777});
  set({.kill_privileges = true});
  EXPECT_EQ(mode(), 0777u);
  EXPECT_EQ(volume_->get_xattr(file_, "security.capability").code(), ENODATA);
}

TEST_F(AttributeOps, AnyChangeOfDataTakesCapabilities) {
  const std::byte value[4] = {};
  const std::byte data[1] = {std::byte{1}};
  LocalSlice slice{const_cast<std::byte*>(data), 1, 0};
  const auto changes = std::to_array<std::function<bool()>>({
      [&] { return volume_->write(file_, 0, std::span(&slice, 1), false, nullptr).ok(); },
      [&] { return volume_->set_attributes(file_, {.size_bytes = 10}, root_caller()).ok(); },
      [&] { return volume_->allocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 10, nullptr).ok(); },
      [&] { return volume_->allocate(file_, 0, 0, 5000, nullptr).ok(); },
  });
  set({.mode = 06777});
  for (const auto& change : changes) {
    ASSERT_TRUE(volume_->set_xattr(file_, "security.capability", value, 0, root_caller()).ok());
    EXPECT_TRUE(change());
    EXPECT_EQ(volume_->get_xattr(file_, "security.capability").code(), ENODATA);
  }
  EXPECT_EQ(mode(), 06777u) << "whoever may, keeps the bits";
}

TEST_F(AttributeOps, ChangesInMappedMemoryLeaveCapabilities) {
  const std::byte value[4] = {};
  const std::byte data[1] = {std::byte{1}};
  LocalSlice slice{const_cast<std::byte*>(data), 1, 0};
  ASSERT_TRUE(volume_->set_xattr(file_, "security.capability", value, 0, root_caller()).ok());
  ASSERT_TRUE(volume_->write(file_, 0, std::span(&slice, 1), false, nullptr, true).ok());
  EXPECT_TRUE(volume_->get_xattr(file_, "security.capability").ok());
}

TEST_F(AttributeOps, UnprivilegedWriteTakesTheGroupsBitFromStrangersToo) {
  const std::byte data[1] = {std::byte{1}};
  LocalSlice slice{const_cast<std::byte*>(data), 1, 0};
  const auto write_as = [&](const Caller& caller) {
    EXPECT_TRUE(volume_->write(file_, 0, std::span(&slice, 1), false, &caller).ok());
  };
  set({.gid = 50});
  set({.mode = 06766});
  write_as(user_caller(1000, 50));
  EXPECT_EQ(mode(), 02766u);
  write_as(user_caller(1000, 1000));
  EXPECT_EQ(mode(), 0766u);
}

TEST_F(AttributeOps, ChownTakesPrivilegesOfDevicesToo) {
  const Ino device = volume_->make_node(kRootIno, "device", S_IFCHR | 06711, 0x103, root_caller())->ino;
  ASSERT_TRUE(volume_->set_attributes(device, {.uid = 5}, root_caller()).ok());
  EXPECT_EQ(volume_->get_attributes(device)->mode & 07777, 0711u);
}

TEST_F(AttributeOps, SetGroupIdNeedsTheGroup) {
  set({.uid = 1000, .gid = 50});
  set({.mode = 02755}, user_caller(1000, 1000));
  EXPECT_EQ(mode(), 0755u);
  set({.mode = 02755}, user_caller(1000, 50));
  EXPECT_EQ(mode(), 02755u);
}

TEST_F(AttributeOps, SizeGoesWithTheOthersInOne) {
  set({.mode = 0600, .size_bytes = 10'000, .mtime = TimeNs{9}});
  const auto attributes = volume_->get_attributes(file_);
  EXPECT_EQ(attributes->size_bytes, 10'000u);
  EXPECT_EQ(attributes->mode & 07777, 0600u);
  EXPECT_EQ(attributes->mtime, TimeNs{9});
  EXPECT_EQ(attributes->blocks_512, 0u) << "a hole";
}

TEST_F(AttributeOps, ChmodMovesTheMaskOfAnAccessList) {
  const uint32_t none = UINT32_MAX;
  ASSERT_TRUE(volume_
                  ->set_xattr(file_, "system.posix_acl_access",
                              acl_bytes({{kAclOwner, 6, none},
                                         {kAclNamedUser, 6, 1000},
                                         {kAclGroup, 4, none},
                                         {kAclMask, 6, none},
                                         {kAclOthers, 4, none}}),
                              0, root_caller())
                  .ok());
  EXPECT_EQ(mode(), 0664u);
  set({.mode = 0600});
  const auto acl = volume_->get_xattr(file_, "system.posix_acl_access");
  ASSERT_TRUE(acl.ok());
  EXPECT_EQ(*acl, acl_bytes({{kAclOwner, 6, none},
                             {kAclNamedUser, 6, 1000},
                             {kAclGroup, 4, none},
                             {kAclMask, 0, none},
                             {kAclOthers, 0, none}}));
}

TEST_F(AttributeOps, ReadingADirectoryStampsAtimeRelatively) {
  const auto read = [&] {
    EXPECT_TRUE(volume_->read_directory(kRootIno, 0, false, [](const DirectoryEntry&) { return true; }).ok());
    return volume_->get_attributes(kRootIno)->atime;
  };
  ASSERT_TRUE(volume_->set_attributes(kRootIno, {.atime = TimeNs{1}}, root_caller()).ok());
  const TimeNs once = read();
  EXPECT_GT(once, TimeNs{1});
  const TimeNs later{static_cast<int64_t>(once) + 1'000'000'000};
  ASSERT_TRUE(volume_->set_attributes(kRootIno, {.atime = later}, root_caller()).ok());
  EXPECT_EQ(read(), later) << "newer than mtime and ctime: stays";
}

TEST_F(AttributeOps, ReadingMayLeaveAtime) {
  std::byte byte{1};
  const LocalSlice slice{&byte, 1, 0};
  ASSERT_TRUE(volume_->write(file_, 0, std::span(&slice, 1), false, nullptr).ok());
  bool may_touch = true;
  volume_->ask_before_touching([&may_touch] { return may_touch; });
  for (const Ino ino : {file_, kRootIno}) {
    const auto stamps = [&](Touch touch) {
      EXPECT_TRUE(volume_->set_attributes(ino, {.atime = TimeNs{1}}, root_caller()).ok());
      const auto visit = [](const DirectoryEntry&) { return true; };
      const bool read = ino == file_ ? volume_->read(ino, 0, std::span(&slice, 1), touch).ok()
                                     : volume_->read_directory(ino, 0, false, visit, touch).ok();
      EXPECT_TRUE(read);
      return volume_->get_attributes(ino)->atime != TimeNs{1};
    };
    EXPECT_TRUE(stamps(Touch::kAtime));
    EXPECT_FALSE(stamps(Touch::kNothing));
    may_touch = false;
    EXPECT_FALSE(stamps(Touch::kAtime));
    may_touch = true;
  }
}

TEST_F(AttributeOps, UnknownInodeIsStale) {
  EXPECT_EQ(volume_->get_attributes(Ino{999}).code(), ESTALE);
  EXPECT_EQ(volume_->set_attributes(Ino{999}, {.mode = 0}, root_caller()).code(), ESTALE);
}

}  // namespace
}  // namespace brickfs
