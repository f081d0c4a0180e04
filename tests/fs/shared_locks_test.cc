// SPDX-License-Identifier: Apache-2.0
// Locks of a member whose coordinator was not told in time that they are no more.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "fs/operations/forwarded_files.h"
#include "tests/support/eventually.h"
#include "tests/support/shared_volume.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::eventually;

// The coordinator's files, where locks that are to go stay for as long as it is slow.
class SlowToClose final : public ForwardedFiles {
 public:
  explicit SlowToClose(FileOperations& files) : files_(files) {}
  Status close_locks(Ino ino, const LockOwner& owner, uint64_t open_file, const OperationContext& context) override {
    for (; is_slow; std::this_thread::sleep_for(milliseconds(1))) TRY(Interruption::check(context.interruption));
    return files_.close_locks(ino, owner, open_file, context);
  }
  std::atomic<bool> is_slow{false};

 private:
  FileOperations& files() const override { return files_; }
  FileOperations& files_;
};

class SharedLocks : public SharedVolume {
 protected:
  SharedLocks() {
    coordinator_ = std::move(*Coordinator::listen("127.0.0.1", 0, "home", secret_of(kTestSecret)));
    own_ = std::make_unique<LeasedFiles>(*volume_, coordinator_->leases());
    slow_ = std::make_unique<SlowToClose>(*own_);
    coordinator_->serve({*slow_, &*volume_, client_}, grace_);
    a_ = join(), b_ = join();
    ino_ = make_file(*a_, "file");
    EXPECT_TRUE(b_->lookup(kRootIno, "file", {}).ok());
  }
  ~SharedLocks() override {
    slow_->is_slow = false;
    a_.reset(), b_.reset();
    coordinator_->stop();
  }
  LockRequest lock(uint64_t owner, LockMode mode = LockMode::kExclusive) const {
    return {ino_, {0, owner, LockKind::kRange}, owner, {0, 9, mode, 42}};
  }
  bool is_free() { return b_->set_lock(lock(7), false, {}).ok(); }
  // As the kernel does for a program that is killed.
  Status close_impatiently(uint64_t owner) {
    Interruption impatience;
    impatience.raise();
    return a_->close_locks(ino_, {0, owner, LockKind::kRange}, owner, {.interruption = &impatience});
  }

  std::unique_ptr<SlowToClose> slow_;
  std::unique_ptr<MemberFiles> a_;
  std::unique_ptr<MemberFiles> b_;
  Ino ino_ = kNoIno;
};

TEST_F(SharedLocks, WhoIsKilledWaitsForNobodyAndItsLocksGo) {
  ASSERT_TRUE(a_->set_lock(lock(1), false, {}).ok());
  slow_->is_slow = true;
  const auto begun = steady_clock::now();
  EXPECT_EQ(close_impatiently(1).code(), EINTR);
  EXPECT_LT(steady_clock::now() - begun, seconds(30));
  EXPECT_FALSE(is_free()) << "the coordinator does not know yet";
  slow_->is_slow = false;
  EXPECT_TRUE(eventually([&] { return is_free(); }));
}

TEST_F(SharedLocks, WhatIsLockedBehindThatIsNotTakenAway) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(a_->set_lock(lock(1), false, {}).ok());
    slow_->is_slow = true;
    EXPECT_EQ(close_impatiently(1).code(), EINTR);
    Status locked = Error(EINVAL);
    std::thread again([&] { locked = a_->set_lock(lock(1), false, {}); });
    std::this_thread::sleep_for(milliseconds(50));
    slow_->is_slow = false;
    again.join();
    EXPECT_TRUE(locked.ok());
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_FALSE(is_free());
    EXPECT_TRUE(a_->set_lock(lock(1, LockMode::kUnlocked), false, {}).ok());
  }
}

TEST_F(SharedLocks, OfACoordinatorThatIsAwayTheNextOneIsNotTold) {
  ASSERT_TRUE(a_->set_lock(lock(1), false, {}).ok());
  coordinator_->stop();
  EXPECT_TRUE(eventually([&] { return a_->volume().is_away(); }));
  EXPECT_EQ(close_impatiently(1).code(), EINTR);
  EXPECT_EQ(a_->release_locks(ino_, 0, 1).code(), EIO) << "it does not wait";
  take_over();
  EXPECT_TRUE(is_free());
}

}  // namespace
}  // namespace brickfs::shared
