// SPDX-License-Identifier: Apache-2.0
// What a coordinator keeps of a member, without the connections.
#include "fs/shared/member_session.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <thread>

#include "tests/support/mounted_volume.h"
#include "transport/base/thread.h"

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
  // The root, which is as good as any.
  static LockRequest lock_of(uint64_t machine) {
    LockRequest request{kRootIno, {machine, 7, LockKind::kRange}, 7, {}};
    request.lock.mode = LockMode::kExclusive;
    return request;
  }
  void lock() { EXPECT_TRUE(volume_->set_lock(lock_of(session_.id()), false).ok()); }
  bool is_locked() { return volume_->find_lock(lock_of(session_.id() + 1))->has_value(); }

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
  session_.end(MemberSession::Ends::kForGood, [&] {
    was_there = is_there(open);
    return Status();
  });
  EXPECT_TRUE(was_there) << "a coordinator that dies here leaves a member with an open file";
  EXPECT_FALSE(is_there(open));
}

TEST_F(MemberSessionTest, ItsEndIsWrittenDownBeforeItsLocksGo) {
  lock();
  bool was_locked = false;
  session_.end(MemberSession::Ends::kForGood, [&] {
    was_locked = is_locked();
    return Status();
  });
  EXPECT_TRUE(was_locked) << "a coordinator that dies here leaves a member that claims what another has got";
  EXPECT_FALSE(is_locked());
}

TEST_F(MemberSessionTest, ItsLocksStayWhileItsEndIsNotWrittenDown) {
  lock();
  session_.end(MemberSession::Ends::kForGood, [] { return Status(Error(EINTR, "the coordinator ends")); });
  EXPECT_TRUE(is_locked());
}

TEST_F(MemberSessionTest, ItsCallsEndBeforeItsLocksGo) {
  lock();
  std::promise<void> begun;
  bool was_locked = false;
  const auto perform = [&](const Decoded&, const MemberReply*, const OperationContext& context) {
    begun.set_value();
    while (Interruption::check(context.interruption).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    was_locked = is_locked();
    return ServedAnswer();
  };
  const Decoded call{Sync{}, {}};
  Thread writer([&] { (void)session_.call(0, 1, call, perform, [](const auto&) { return Status(); }); });
  begun.get_future().wait();
  session_.end();
  writer.join();
  EXPECT_TRUE(was_locked) << "a write that ends late would meet those of whoever has the lock next";
  EXPECT_FALSE(is_locked());
}

}  // namespace
}  // namespace brickfs::shared
