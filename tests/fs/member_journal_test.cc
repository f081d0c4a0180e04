// SPDX-License-Identifier: Apache-2.0
// What a volume keeps of the members that share it: over a crash of the coordinator, and over checkpoints.
#include "fs/operations/member_journal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fs/persistence/superblock.h"
#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

class MemberJournalTest : public ::testing::Test {
 protected:
  MemberJournalTest() : volume_(MountedVolume::Options{.mount = {.shared = true}}) {}

  Status begin(uint64_t session, std::string_view name = "a machine") {
    return volume_->begin_member({session, 40 + session, {std::byte{0x11}, std::byte{0x12}}, session == 2, name},
                                 nullptr);
  }
  static OperationContext call(uint64_t session, uint32_t slot, uint64_t number) {
    OperationContext context;
    context.machine = session;
    context.call = {slot, number};
    return context;
  }
  // Of the only member.
  MemberReply reply(uint32_t slot) {
    const std::vector<KnownMember> members = volume_->members();
    if (members.size() != 1 || !members[0].replies.contains(slot)) return {};
    return members[0].replies.at(slot);
  }
  Status write(Ino ino, uint64_t offset, std::string text, const OperationContext& context, bool append = false) {
    const LocalSlice from{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
    const auto written = volume_->write(ino, offset, std::span(&from, 1), append, nullptr, false, context);
    return written.ok() ? Status() : Status(written.error());
  }
  void crash() {
    ASSERT_TRUE(volume_->await_written().ok());
    volume_.crash_and_mount();
  }

  MountedVolume volume_;
};

TEST_F(MemberJournalTest, MembersOutliveTheCoordinatorUntilTheyLeave) {
  ASSERT_TRUE(begin(1).ok());
  ASSERT_TRUE(begin(2, "another").ok());
  ASSERT_TRUE(begin(3).ok());
  volume_->end_member(3);
  for (const bool with_checkpoint : {false, true}) {
    if (with_checkpoint) {
      ASSERT_TRUE(volume_->checkpoint().ok());
    }
    crash();
    const std::vector<KnownMember> members = volume_->members();
    ASSERT_EQ(members.size(), 2u);
    EXPECT_EQ(members[0].session, 1u);
    EXPECT_EQ(members[0].client, 41u);
    EXPECT_EQ(members[0].token[1], std::byte{0x12});
    EXPECT_FALSE(members[0].read_only);
    EXPECT_EQ(members[1].name, "another");
    EXPECT_TRUE(members[1].read_only);
  }
  volume_.unmount_and_mount();
  EXPECT_EQ(volume_->members().size(), 2u);
}

// What a member may ask for and is changed by it: each says, in the transaction that changes it, that it was done.
TEST_F(MemberJournalTest, EachChangeSaysWhoseCallItWas) {
  ASSERT_TRUE(begin(1).ok());
  const Caller root = root_caller();
  const Ino ino = volume_->create(kRootIno, "file", S_IFREG | 0644, root, call(1, 1, 10))->ino;
  const Ino temporary = volume_->make_temporary(kRootIno, S_IFREG | 0644, root, call(1, 2, 11))->ino;
  ASSERT_TRUE(volume_->link(ino, kRootIno, "link", call(1, 3, 12)).ok());
  ASSERT_TRUE(volume_->unlink(kRootIno, "link", call(1, 4, 13)).ok());
  ASSERT_TRUE(volume_->make_directory(kRootIno, "d", S_IFDIR | 0755, root, call(1, 5, 14)).ok());
  ASSERT_TRUE(volume_->remove_directory(kRootIno, "d", call(1, 6, 15)).ok());
  ASSERT_TRUE(volume_->rename(kRootIno, "file", kRootIno, "moved", Rename::kReplace, nullptr, call(1, 7, 16)).ok());
  const Ino other = volume_->create(kRootIno, "other", S_IFREG | 0644, root, {})->ino;
  ASSERT_TRUE(volume_->rename(kRootIno, "moved", kRootIno, "other", Rename::kExchange, nullptr, call(1, 8, 17)).ok());
  ASSERT_TRUE(volume_->set_attributes(ino, {.mode = 0600}, root, call(1, 9, 18)).ok());
  ASSERT_TRUE(volume_->set_attributes(ino, {.size_bytes = 100}, root, call(1, 10, 19)).ok());
  ASSERT_TRUE(volume_->set_xattr(ino, "user.x", {}, 0, root, call(1, 11, 20)).ok());
  ASSERT_TRUE(volume_->remove_xattr(ino, "user.x", call(1, 12, 21)).ok());
  ASSERT_TRUE(write(ino, 0, "text", call(1, 13, 22), true).ok());
  ASSERT_TRUE(volume_->allocate(ino, 0, 0, 10'000, nullptr, call(1, 14, 23)).ok());
  ASSERT_EQ(*volume_->copy_range(ino, 0, other, 0, 20'000, nullptr, call(1, 15, 24)), 10'000u);
  for (const bool with_checkpoint : {false, true}) {
    if (with_checkpoint) {
      ASSERT_TRUE(volume_->checkpoint().ok());
    }
    crash();
    for (uint32_t slot = 1; slot <= 15; ++slot) EXPECT_EQ(reply(slot).number, slot + 9u) << slot;
    EXPECT_EQ(reply(1).first, raw(ino));
    EXPECT_EQ(reply(2).first, raw(temporary));
    EXPECT_EQ(reply(7).first, raw(ino));
    EXPECT_EQ(reply(8).first, raw(ino));
    EXPECT_EQ(reply(8).second, raw(other));
    EXPECT_EQ(reply(15).first, 10'000u);
  }
}

// Within one tick of the clock nothing of the inode changes.
TEST_F(MemberJournalTest, AnOverwriteInPlaceIsNoted) {
  ASSERT_TRUE(begin(1).ok());
  const Ino ino = make_file(*volume_, "file");
  ASSERT_TRUE(write(ino, 0, std::string(8192, 'a'), {}).ok());
  for (uint64_t number = 1; number <= 200; ++number) {
    ASSERT_TRUE(write(ino, 100, "b", call(1, 0, number)).ok());
    ASSERT_EQ(reply(0).number, number);
  }
  crash();
  EXPECT_EQ(reply(0).number, 200u);
}

TEST_F(MemberJournalTest, WhatFailsOrIsNobodysLeavesNoReply) {
  ASSERT_TRUE(begin(1).ok());
  EXPECT_EQ(volume_->unlink(kRootIno, "none", call(1, 0, 1)).code(), ENOENT);
  ASSERT_TRUE(volume_->create(kRootIno, "of a stranger", S_IFREG | 0644, root_caller(), call(9, 0, 1)).ok());
  crash();
  ASSERT_EQ(volume_->members().size(), 1u);
  EXPECT_TRUE(volume_->members()[0].replies.empty());
  EXPECT_TRUE(stat_path(*volume_, "of a stranger").ok());
}

// Unlinked files that members have open wait for them, over any number of crashes.
TEST_F(MemberJournalTest, UnlinkedFilesStayUntilGraceIsOver) {
  ASSERT_TRUE(begin(1).ok());
  const Ino claimed = make_file(*volume_, "claimed");
  const Ino unclaimed = make_file(*volume_, "unclaimed");
  ASSERT_TRUE(write(claimed, 0, "text", {}).ok());
  ASSERT_TRUE(volume_->unlink(kRootIno, "claimed").ok());
  ASSERT_TRUE(volume_->unlink(kRootIno, "unclaimed").ok());
  const Ino untold = volume_->make_temporary(kRootIno, S_IFREG | 0644, root_caller(), call(1, 3, 9))->ino;
  crash();
  crash();
  ASSERT_TRUE(volume_->hold(claimed).ok());
  volume_->end_grace();
  EXPECT_EQ(volume_->get_attributes(claimed)->size_bytes, 4u);
  EXPECT_EQ(volume_->get_attributes(unclaimed).code(), ESTALE);
  EXPECT_TRUE(volume_->get_attributes(untold).ok());
  volume_->forget(claimed, 1);
  EXPECT_EQ(volume_->get_attributes(claimed).code(), ESTALE);
}

// Nobody can come back to a mount that lets nobody in.
TEST_F(MemberJournalTest, AMountThatIsNotSharedForgetsMembers) {
  ASSERT_TRUE(begin(1).ok());
  const Ino ino = make_file(*volume_, "file");
  ASSERT_TRUE(volume_->unlink(kRootIno, "file").ok());
  ASSERT_TRUE(volume_->await_written().ok());
  volume_.options().mount.shared = false;
  volume_.crash_and_mount();
  EXPECT_TRUE(volume_->members().empty());
  EXPECT_EQ(volume_->get_attributes(ino).code(), ESTALE);
  volume_.options().mount.shared = true;
  crash();
  EXPECT_TRUE(volume_->members().empty());
}

}  // namespace
}  // namespace brickfs
