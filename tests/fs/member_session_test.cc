// SPDX-License-Identifier: Apache-2.0
// What a coordinator keeps of a member, without the connections.
#include "fs/shared/member_session.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "tests/support/mounted_volume.h"

namespace brickfs::shared {
namespace {

class MemberSessionTest : public ::testing::Test {
 protected:
  template <typename Asked>
  int ask(const Asked& asked) {
    int status = -1;
    const Decoded call{asked, {}};
    const auto perform = [](const Decoded&, const MemberReply*, const OperationContext&) { return ServedAnswer(); };
    const auto say = [&status](const MemberSession::Answer& answer) {
      status = answer.status;
      return Status();
    };
    EXPECT_TRUE(session_.call(0, ++calls_, call, perform, say).ok());
    return status;
  }
  // Unlinked: it is there as long as somebody refers to it.
  Ino make_open(const std::string& name) {
    const Ino ino = volume_->create(kRootIno, name, S_IFREG | 0644, root_caller())->ino;
    EXPECT_EQ(ask(Hold{ino}), 0);
    EXPECT_TRUE(volume_->unlink(kRootIno, name, {}).ok());
    volume_->forget(ino, 1);
    return ino;
  }
  bool is_there(Ino ino) { return volume_->get_attributes(ino, {}).ok(); }

  MountedVolume volume_{MountedVolume::Options{.mount = {.shared = true}}};
  Leases leases_;
  MemberSession session_{*volume_, leases_, nullptr, 1, JoinRequest()};
  uint64_t calls_ = 0;
};

TEST_F(MemberSessionTest, ClaimsThatAreBegunAnewCountOnce) {
  const Ino open = make_open("open");
  const Ino other = make_open("other");
  EXPECT_EQ(ask(Claim{{{open, 1}, {other, 1}}, {}, {}, true, false}), 0);
  EXPECT_EQ(ask(Claim{{{open, 1}}, {}, {}, true, false}), 0) << "the connection was lost";
  EXPECT_EQ(ask(Claim{{}, {}, {}, false, true}), 0);
  EXPECT_TRUE(is_there(open));
  EXPECT_FALSE(is_there(other)) << "nobody claims it any more";
  EXPECT_EQ(ask(Forget{{{open, 1}}}), 0);
  EXPECT_FALSE(is_there(open)) << "it was claimed once";
}

TEST_F(MemberSessionTest, WhatItRefersToGoesWithIt) {
  const Ino open = make_open("open");
  EXPECT_EQ(ask(Claim{{{open, 1}}, {}, {}, true, false}), 0);
  EXPECT_TRUE(is_there(open));
  session_.end();
  EXPECT_FALSE(is_there(open));
}

TEST_F(MemberSessionTest, ItsEndIsWrittenDownBeforeWhatItRefersToGoes) {
  const Ino open = make_open("open");
  bool was_there = false;
  session_.end(MemberSession::Ends::kForGood, [&] { was_there = is_there(open); });
  EXPECT_TRUE(was_there) << "a coordinator that dies here leaves a member with an open file";
  EXPECT_FALSE(is_there(open));
}

}  // namespace
}  // namespace brickfs::shared
