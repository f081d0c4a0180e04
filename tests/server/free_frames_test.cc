// SPDX-License-Identifier: Apache-2.0
#include "server/store/free_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Content = FreeFrames::Content;
using Clock = FreeFrames::Clock;

constexpr uint32_t kFrames = 100;
constexpr uint32_t kAny = UINT32_MAX;  // may be made ready
const Clock::time_point kStart = Clock::time_point() + seconds(1'000);

class FreeFramesTest : public ::testing::Test {
 protected:
  // Does what there is to do now. How many.
  uint32_t do_chores(Content becomes, uint32_t most = kAny) {
    uint32_t count = 0;
    while (const auto chore = free_.next_chore(most, now_)) {
      EXPECT_EQ(chore->becomes, becomes);
      free_.add({chore->frame.number, chore->becomes});
      ++count;
    }
    return count;
  }
  std::vector<FreeFrames::Frame> take(uint32_t count) {
    std::vector<FreeFrames::Frame> frames;
    for (uint32_t i = 0; i < count; ++i) {
      const auto frame = free_.take(frames.empty() ? 0 : frames.back().number + 1, now_);
      if (frame) frames.push_back(*frame);
    }
    return frames;
  }
  void give_back(const std::vector<FreeFrames::Frame>& frames) {
    for (const auto& frame : frames) free_.add({frame.number, Content::kUsed});
  }

  FreeFrames free_{kFrames, {.ready = 10}};
  Clock::time_point now_ = kStart;
};

TEST_F(FreeFramesTest, SomeAreMadeReadyAndGoFirst) {
  EXPECT_EQ(do_chores(Content::kReady), 10u);
  EXPECT_EQ(free_.next_look(), std::nullopt);
  const auto frames = take(12);
  EXPECT_EQ(frames[0].content, Content::kReady);
  EXPECT_EQ(frames[9].content, Content::kReady);
  EXPECT_EQ(frames[10].content, Content::kCold);
  EXPECT_EQ(frames[10].number, frames[9].number + 1);
  give_back({frames[3]});
  EXPECT_EQ(free_.take(50, now_)->number, frames[3].number);  // populated at least
}

TEST_F(FreeFramesTest, NeverMoreThanThereIsRoomForOrAQuarter) {
  EXPECT_EQ(do_chores(Content::kReady, 3), 3u);
  FreeFrames small(8, {.ready = 10});
  uint32_t count = 0;
  while (const auto chore = small.next_chore(kAny, now_)) {
    small.add({chore->frame.number, chore->becomes});
    ++count;
  }
  EXPECT_EQ(count, 2u);
}

TEST_F(FreeFramesTest, ThoseInUseAreNotFree) {
  std::vector<bool> in_use(kFrames);
  in_use[0] = in_use[7] = true;
  FreeFrames some(in_use, Content::kUsed, {.ready = 0});
  EXPECT_EQ(some.count(), kFrames - 2);
  std::vector<bool> taken = in_use;
  while (const auto frame = some.take(0, now_)) {
    EXPECT_EQ(frame->content, Content::kUsed);
    EXPECT_FALSE(taken[frame->number]);
    taken[frame->number] = true;
  }
  EXPECT_TRUE(std::ranges::all_of(taken, std::identity()));
}

TEST_F(FreeFramesTest, WhoTakesSomeIsLeftInPeaceUntilHalfAreGone) {
  do_chores(Content::kReady);
  take(5);
  EXPECT_FALSE(free_.runs_short());
  EXPECT_EQ(do_chores(Content::kReady), 0u);
  EXPECT_EQ(free_.next_look(), now_ + milliseconds(200));
  take(1);
  EXPECT_TRUE(free_.runs_short());
  EXPECT_EQ(do_chores(Content::kReady), 1u);
  now_ += milliseconds(200);
  EXPECT_EQ(do_chores(Content::kReady), 5u);
}

TEST_F(FreeFramesTest, WhatWasUsedIsMadeReadyBeforeWhatIsCold) {
  do_chores(Content::kReady);
  const auto frames = take(3);
  give_back(frames);
  now_ += milliseconds(200);
  for (size_t i = 0; i < frames.size(); ++i) {
    const auto chore = free_.next_chore(kAny, now_);
    ASSERT_TRUE(chore.has_value());
    EXPECT_EQ(chore->frame.content, Content::kUsed);
    free_.add({chore->frame.number, chore->becomes});
  }
  EXPECT_EQ(do_chores(Content::kReady), 0u);
}

TEST_F(FreeFramesTest, TheLastOnesAreLeftAlone) {
  const auto frames = take(kFrames - 6);
  EXPECT_EQ(do_chores(Content::kReady), 0u);
  EXPECT_EQ(free_.next_look(), std::nullopt);
  give_back({frames[0]});
  EXPECT_EQ(free_.next_chore(kAny, now_)->frame.number, frames[0].number);
}

TEST_F(FreeFramesTest, WhatNobodyNeededForAWhileIsCooled) {
  do_chores(Content::kReady);
  give_back(take(40));
  now_ += milliseconds(200);
  do_chores(Content::kReady);  // notices, too, that there are more
  EXPECT_EQ(free_.next_look(), now_ + seconds(10));
  // Twice in that time 25 are needed.
  for (int round = 0; round < 2; ++round) {
    now_ += seconds(5);
    const auto frames = take(25);
    EXPECT_FALSE(std::ranges::any_of(frames, [](const auto& frame) { return frame.content == Content::kCold; }));
    give_back(frames);
  }
  now_ += milliseconds(200);
  uint32_t cooled = 0;
  while (const auto chore = free_.next_chore(kAny, now_)) {
    cooled += chore->becomes == Content::kCold ? 1 : 0;
    free_.add({chore->frame.number, chore->becomes});
  }
  EXPECT_EQ(cooled, 5u);  // of 40, 10 are always kept
  now_ += seconds(10);
  EXPECT_EQ(do_chores(Content::kCold), 25u);
  EXPECT_EQ(free_.next_look(), std::nullopt);
  EXPECT_EQ(free_.count(), kFrames);
}

TEST_F(FreeFramesTest, NothingIsCooledOnceAllIsToBeKept) {
  free_.keep_all();
  give_back(take(40));
  now_ += seconds(1);
  do_chores(Content::kReady);
  now_ += seconds(100);
  EXPECT_EQ(do_chores(Content::kCold), 0u);
  EXPECT_EQ(free_.next_look(), std::nullopt);
}

}  // namespace
}  // namespace brickfs
