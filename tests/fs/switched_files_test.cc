// SPDX-License-Identifier: Apache-2.0
// File operations that are another one's from a moment on (SwitchedFiles), and the pages that a kernel keeps behind
// that (KernelPages).
#include "fs/shared/switched_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/shared/kernel_pages.h"
#include "tests/support/mounted_volume.h"

namespace brickfs::shared {
namespace {

using namespace std::chrono_literals;

constexpr auto kBlocked = std::future_status::timeout;

// Notes the keys of memory that it is given, and keeps who asks for attributes until it is let go on.
class NotedFiles final : public ForwardedFiles {
 public:
  explicit NotedFiles(FileOperations& files) : files_(files) {}
  Result<uint64_t> read(Ino, uint64_t, std::span<const LocalSlice> into, Touch, const OperationContext&) override {
    key = into.front().local_key;
    return 0;
  }
  Result<Attributes> get_attributes(Ino ino, const OperationContext& context) override {
    ++asked;
    while (holds) std::this_thread::sleep_for(1ms);
    if (fails_with != 0) return Error(fails_with, "as it was told");
    return files_.get_attributes(ino, context);
  }
  std::unique_ptr<JointTransfer> joint_transfer(const OperationContext& context) override {
    return files_.joint_transfer(context);
  }

  std::atomic<uint32_t> key{0};
  std::atomic<int> asked{0};
  std::atomic<int> fails_with{0};
  std::atomic<bool> holds{false};

 private:
  FileOperations& files() const override { return files_; }
  FileOperations& files_;
};

LockRequest whole(uint64_t owner, LockMode mode) {
  LockRequest request;
  request.ino = kRootIno;
  request.owner = {.machine = 0, .id = owner, .kind = LockKind::kWhole};
  request.open_file = owner;
  request.lock.mode = mode;
  return request;
}

class Switched : public ::testing::Test {
 protected:
  void close() {
    files_.close([this] { (void)first_volume_->end_own_waiting(); });
  }
  static std::future<int> attributes(SwitchedFiles& files, const Interruption* by = nullptr) {
    return std::async(std::launch::async,
                      [&files, by] { return files.get_attributes(kRootIno, {.interruption = by}).code(); });
  }
  static void await(const std::atomic<int>& count, int wanted) {
    for (int i = 0; i < 10'000 && count < wanted; ++i) std::this_thread::sleep_for(1ms);
    ASSERT_GE(count, wanted);
  }

  MountedVolume first_volume_;
  MountedVolume next_volume_;
  NotedFiles first_{*first_volume_};
  NotedFiles next_{*next_volume_};
  std::atomic<int> confirmed_{0};
  std::atomic<int> asked_to_confirm_{0};
  std::atomic<bool> is_unknown_{false};  // whose it is
  SwitchedFiles files_{first_, [this](SwitchedFiles::Clock::time_point, const Interruption* by) -> Status {
                         ++asked_to_confirm_;
                         while (is_unknown_) {
                           TRY(Interruption::check(by));
                           std::this_thread::sleep_for(1ms);
                         }
                         if (confirmed_ == 0) return {};
                         return Error(confirmed_, "it is another's");
                       }};
};

TEST_F(Switched, WhoIsInsideIsWaitedForAndOthersGoOnWithTheNextOne) {
  first_.holds = true;
  auto inside = attributes(files_);
  await(first_.asked, 1);
  auto closed = std::async(std::launch::async, [this] { close(); });
  EXPECT_EQ(closed.wait_for(50ms), kBlocked) << "one is inside";
  Interruption impatience;
  auto waiting = attributes(files_);
  auto impatient = attributes(files_, &impatience);
  EXPECT_EQ(waiting.wait_for(50ms), kBlocked);
  impatience.raise();
  EXPECT_EQ(impatient.get(), EINTR);
  first_.holds = false;
  EXPECT_EQ(inside.get(), 0);
  closed.get();
  EXPECT_EQ(waiting.wait_for(50ms), kBlocked) << "it is closed";
  EXPECT_FALSE(files_.has_switched());
  files_.switch_to(next_);
  EXPECT_EQ(waiting.get(), 0);
  EXPECT_EQ(first_.asked, 1);
  EXPECT_EQ(next_.asked, 1);
}

TEST_F(Switched, WhoWaitsForALockWaitsForItWithTheNextOne) {
  ASSERT_TRUE(files_.set_lock(whole(1, LockMode::kExclusive), true, {}).ok());
  ASSERT_TRUE(next_volume_->set_lock(whole(3, LockMode::kExclusive), false, {}).ok());
  auto waiting = std::async(std::launch::async,
                            [this] { return files_.set_lock(whole(2, LockMode::kExclusive), true, {}).code(); });
  EXPECT_EQ(waiting.wait_for(50ms), kBlocked);
  close();
  const auto kept = first_volume_->end_own_waiting();
  ASSERT_EQ(kept.size(), 1u) << "who waited has none, and who had one has it";
  EXPECT_EQ(kept[0].owner.id, 1u);
  files_.switch_to(next_);
  EXPECT_EQ(waiting.wait_for(100ms), kBlocked) << "another has it there";
  ASSERT_TRUE(next_volume_->set_lock(whole(3, LockMode::kUnlocked), false, {}).ok());
  EXPECT_EQ(waiting.get(), 0);
}

TEST_F(Switched, TransfersThatWereBegunAreWaitedForAndOthersDeclined) {
  const Ino ino = files_.create(kRootIno, "file", S_IFREG | 0644, root_caller(), {})->ino;
  std::vector<std::byte> bytes(4096);
  const LocalSlice slice{bytes.data(), 4096, 0};
  ASSERT_TRUE(files_.write(ino, 0, std::span(&slice, 1), false, nullptr, false, {}).ok());
  auto transfer = files_.joint_transfer({});
  ASSERT_TRUE(transfer->begin_read(ino, 0, slice, Touch::kNothing));
  auto closed = std::async(std::launch::async, [this] { close(); });
  EXPECT_EQ(closed.wait_for(50ms), kBlocked);
  const auto late = files_.joint_transfer({});
  EXPECT_FALSE(late->begin_read(ino, 0, slice, Touch::kNothing));
  EXPECT_EQ(late->size(), 0u);
  EXPECT_TRUE(late->move().ok());
  EXPECT_TRUE(transfer->move().ok());
  EXPECT_EQ(transfer->result(0).ok(), true);
  transfer.reset();
  closed.get();
  files_.switch_to(next_);
}

TEST_F(Switched, MemoryIsKnownToTheOneThatItWasRegisteredWith) {
  std::byte one{};
  const LocalSlice slice{&one, 1, 77};
  (void)files_.read(kRootIno, 0, std::span(&slice, 1), Touch::kNothing, {});
  EXPECT_EQ(first_.key, 77u);
  next_.key = 1;
  close();
  files_.switch_to(next_);
  (void)files_.read(kRootIno, 0, std::span(&slice, 1), Touch::kNothing, {});
  EXPECT_EQ(next_.key, 0u);
}

TEST_F(Switched, NothingIsToldOfAVolumeThatMayBeAnothers) {
  confirmed_ = ESTALE;
  EXPECT_EQ(files_.get_attributes(kRootIno, {}).code(), ESTALE);
  EXPECT_EQ(first_.asked, 0) << "nor begun";
  confirmed_ = 0;
  first_.holds = true;
  auto answered = attributes(files_);
  await(first_.asked, 1);
  confirmed_ = ESTALE;
  first_.holds = false;
  EXPECT_EQ(answered.get(), ESTALE) << "it is looked at behind what was done";
  close();
  files_.switch_to(next_);
  EXPECT_TRUE(files_.get_attributes(kRootIno, {}).ok()) << "which is the first one's business";
}

// As a soft mount's that has waited for the bricks: behind it nothing is waited for again.
TEST_F(Switched, AnErrorThatTellsOfNoFileIsNotConfirmed) {
  for (const int code : {EIO, EINTR, ECANCELED, ESTALE}) {
    first_.fails_with = code;
    const int before = asked_to_confirm_;
    EXPECT_EQ(files_.get_attributes(kRootIno, {}).code(), code);
    EXPECT_EQ(asked_to_confirm_, before + 1);
  }
  first_.fails_with = ENOENT;
  const int before = asked_to_confirm_;
  EXPECT_EQ(files_.get_attributes(kRootIno, {}).code(), ENOENT);
  EXPECT_EQ(asked_to_confirm_, before + 2);
}

TEST_F(Switched, WhoWaitsForThatBehindWhatWasDoneIsInterruptedToo) {
  Interruption impatience;
  first_.holds = true;
  auto waiting = attributes(files_, &impatience);
  await(first_.asked, 1);
  is_unknown_ = true;
  first_.holds = false;
  EXPECT_EQ(waiting.wait_for(50ms), kBlocked);
  impatience.raise();
  EXPECT_EQ(waiting.get(), EINTR);
}

TEST_F(Switched, WhoClosesFilesWaitsForNoBrick) {
  ASSERT_TRUE(files_.set_lock(whole(1, LockMode::kExclusive), false, {}).ok());
  is_unknown_ = true;
  EXPECT_TRUE(files_.release_locks(kRootIno, 0, 1).ok());
  is_unknown_ = false;
  EXPECT_TRUE(files_.set_lock(whole(2, LockMode::kExclusive), false, {}).ok());
}

TEST_F(Switched, TransfersThatWouldWaitForBricksAreDeclined) {
  std::vector<std::byte> bytes(4096);
  const LocalSlice slice{bytes.data(), 4096, 0};
  is_unknown_ = true;
  const auto transfer = files_.joint_transfer({});
  EXPECT_FALSE(transfer->begin_read(kRootIno, 0, slice, Touch::kNothing));
  close();  // nor is it inside
}

TEST_F(Switched, WhoGivesTheVolumeUpGivesTheNextOneUpToo) {
  close();
  files_.volume().interrupt();
  files_.switch_to(next_);
  EXPECT_EQ(files_.volume().final_error().code(), ECANCELED);
}

class NotedKernel final : public OwnKernel {
 public:
  void set_shared(bool) override {}
  void become_member() override {}
  std::vector<Ino> open_by_pages() const override { return {}; }
  void drop(const ChangedFile& changed, const Interruption* by) override {
    EXPECT_EQ(changed.offset, 0u);
    EXPECT_EQ(changed.length, UINT64_MAX);
    ++(changed.ino == Ino{7} ? sevens : others);
    while (holds && Interruption::check(by).ok()) std::this_thread::sleep_for(1ms);
  }
  std::atomic<int> sevens{0};
  std::atomic<int> others{0};
  std::atomic<bool> holds{false};
};

TEST(PagesOfAMembersKernel, GoWithARecallAndWhenNothingIsHeld) {
  NotedKernel kernel;
  Held held;
  held.renew(BootClock::now(), held.generation());
  KernelPages pages(kernel, held, {Ino{7}, Ino{8}});
  std::this_thread::sleep_for(250ms);
  EXPECT_EQ(kernel.sevens + kernel.others, 0) << "all are held";
  pages.recall(Ino{9});
  EXPECT_EQ(kernel.others, 0) << "of others the kernel has none";
  pages.recall(Ino{7});
  EXPECT_EQ(kernel.sevens, 1);
  pages.forget(Ino{8});
  pages.recall(Ino{8});
  EXPECT_EQ(kernel.others, 0);
  held.let_go();
  for (int i = 0; i < 10'000 && kernel.sevens < 4; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_GE(kernel.sevens, 4) << "again and again";
  pages.stop();
  const int before = kernel.sevens;
  pages.recall(Ino{7});
  EXPECT_EQ(kernel.sevens, before);
}

TEST(PagesOfAMembersKernel, AreWaitedForByNobodyWhoEnds) {
  NotedKernel kernel;
  Held held;
  held.renew(BootClock::now(), held.generation());
  KernelPages pages(kernel, held, {Ino{7}});
  kernel.holds = true;
  auto recalled = std::async(std::launch::async, [&] { pages.recall(Ino{7}); });
  for (int i = 0; i < 10'000 && kernel.sevens < 1; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(recalled.wait_for(50ms), kBlocked) << "the kernel has them yet";
  pages.stop();
  EXPECT_EQ(recalled.wait_for(60s), std::future_status::ready);
}

}  // namespace
}  // namespace brickfs::shared
