// SPDX-License-Identifier: Apache-2.0
// Whether a caller is in a group is looked up in /proc, which may take long: nobody else waits for that.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

constexpr uint32_t kUser = 1000;
constexpr uint32_t kGroup = 500;  // the directory's
constexpr std::chrono::seconds kLong{5};

// Another thread looks at that inode while this caller is asked.
struct AskedCaller {
  AskedCaller(Filesystem& filesystem, Ino looked_at, bool is_member) {
    caller = user_caller(kUser, kUser);
    caller.in_group = [this, &filesystem, looked_at, is_member](uint32_t) {
      ++asked;
      auto look = std::make_shared<std::promise<void>>();
      auto looked = look->get_future();
      others.push_back(std::thread([&filesystem, looked_at, look] {
        EXPECT_TRUE(filesystem.get_attributes(looked_at).ok());
        look->set_value();
      }));
      blocked = blocked || looked.wait_for(kLong) != std::future_status::ready;
      return is_member;
    };
  }
  ~AskedCaller() {
    for (std::thread& other : others) other.join();
  }

  Caller caller;
  int asked = 0;
  bool blocked = false;
  std::vector<std::thread> others;
};

class CallerGroup : public ::testing::Test {
 protected:
  CallerGroup() {
    directory_ = volume_->make_directory(kRootIno, "d", 0777, root_caller())->ino;
    EXPECT_TRUE(volume_->set_attributes(directory_, {.gid = kGroup}, root_caller()).ok());
    Caller root = root_caller();
    root.in_group = [](uint32_t) { return true; };
    EXPECT_TRUE(volume_->set_attributes(directory_, {.mode = 02777}, root).ok());
  }
  MountedVolume volume_;
  Ino directory_{};
};

TEST_F(CallerGroup, IsAskedWithoutALockOfTheDirectory) {
  AskedCaller member(*volume_, directory_, true);
  const auto made = volume_->create(directory_, "program", 02755, member.caller);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->gid, kGroup);
  EXPECT_EQ(made->mode & 07777, 02755u);
  EXPECT_EQ(member.asked, 1);
  EXPECT_FALSE(member.blocked);
}

TEST_F(CallerGroup, WhoIsNotInItGetsNoSetGroupId) {
  AskedCaller stranger(*volume_, directory_, false);
  EXPECT_EQ(volume_->create(directory_, "program", 02755, stranger.caller)->mode & 07777, 0755u);
  EXPECT_FALSE(stranger.blocked);
}

TEST_F(CallerGroup, IsNotAskedWhereItDoesNotMatter) {
  AskedCaller member(*volume_, directory_, true);
  ASSERT_TRUE(volume_->create(directory_, "plain", 0755, member.caller).ok());
  ASSERT_TRUE(volume_->make_directory(directory_, "inner", 02755, member.caller).ok());
  const Ino own = volume_->create(kRootIno, "own", 0644, member.caller)->ino;
  ASSERT_TRUE(volume_->set_attributes(own, {.mode = 0600}, member.caller).ok());
  EXPECT_EQ(member.asked, 0);
}

TEST_F(CallerGroup, ChangingAModeAsksWithoutALock) {
  const Ino file = volume_->create(directory_, "file", 0644, user_caller(kUser, kUser))->ino;
  AskedCaller member(*volume_, file, true);
  const auto changed = volume_->set_attributes(file, {.mode = 02755}, member.caller);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->mode & 07777, 02755u);
  EXPECT_FALSE(member.blocked);
}

}  // namespace
}  // namespace brickfs
