// SPDX-License-Identifier: Apache-2.0
// A member's reading from the bricks: what counts, and what is left to the coordinator, who here is a file system in
// this process.
#include "fs/shared/member_data.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "server/service/embedded_brick.h"
#include "tests/support/faulty_brick.h"
#include "tests/support/mounted_volume.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using Content = std::vector<std::byte>;

constexpr Ino kOtherIno{12345};
constexpr size_t kLong = 200'000;  // a read that asks the brick each time
static_assert(kLong > MemberData::kShortRead);

Content pattern(size_t length, unsigned seed) {
  std::minstd_rand random(seed);
  Content bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class MemberDataTest : public ::testing::Test {
 protected:
  MemberDataTest()
      : faults_(std::make_shared<BrickFaults>([this] { return make_embedded_brick(volume_.brick()); })),
        data_([this](uint32_t, const ReadableBrick& brick, bool) { return open(brick); }, 0,
              [this](const GetLayout& asked, const OperationContext&) { return layout(asked); }, held_) {
    hold();
  }

  // Leases that nobody has to renew.
  void hold() { held_.renew(BootClock::now() + std::chrono::hours(1), held_.generation()); }
  void recall(Ino ino) {
    held_.recall(ino, Lease::kData);
    data_.recall(ino);
  }
  void lapse() {
    held_.let_go();
    data_.lapse();
    hold();
  }
  Held::Change change(Ino ino) {
    Held::Change change(held_);
    change.of_data(ino);
    data_.drop(ino);
    return change;
  }

  Result<std::unique_ptr<VolumeClient>> open(const ReadableBrick& brick) {
    VolumeOptions options;
    options.open.client = ClientId{99};
    options.open.client_name = "a member";
    options.open.mode = OpenMode::kFollow;
    options.open.bound = true;
    options.open.resume = brick.epoch;
    options.soft = milliseconds(200);
    ++opened_;
    return VolumeClient::open(faults_->make_brick(), std::move(options), nullptr);
  }
  Result<Layout> layout(const GetLayout& asked) {
    ++asked_;
    if (while_asked_) while_asked_();
    Layout answer;
    answer.layout = TRY(volume_->layout(asked.ino, asked.offset, most_parts_));
    answer.is_atime_due = is_atime_due_;
    answer.is_leased = grants_;
    if (spoil_) spoil_(answer.layout);
    return answer;
  }

  void write(Ino ino, uint64_t offset, Content bytes) {
    const LocalSlice from{bytes.data(), static_cast<uint32_t>(bytes.size()), 0};
    ASSERT_TRUE(volume_->write(ino, offset, std::span(&from, 1), false, nullptr).ok());
  }
  // None: it was left to the coordinator.
  std::optional<Content> read_once(Ino ino, uint64_t offset, size_t length, bool touches = false) {
    Content bytes(length, std::byte{0xEE});
    // In two slices, neither at a border of anything.
    const uint32_t half = static_cast<uint32_t>(length / 2);
    const std::array into = {LocalSlice{bytes.data(), half, 0},
                             LocalSlice{bytes.data() + half, static_cast<uint32_t>(length - half), 0}};
    const auto got = data_.read(ino, offset, into, touches, {});
    if (!got) return std::nullopt;
    bytes.resize(*got);
    return bytes;
  }
  // Once the brick is opened, which nobody waits for.
  Content read(Ino ino, uint64_t offset, size_t length) {
    const auto until = steady_clock::now() + seconds(20);
    while (steady_clock::now() < until) {
      if (auto bytes = read_once(ino, offset, length)) return *bytes;
      std::this_thread::sleep_for(milliseconds(2));
    }
    ADD_FAILURE() << "nothing is read from the brick";
    return {};
  }
  Ino make_written(size_t length, unsigned seed) {
    const Ino ino = make_file(*volume_, "file" + std::to_string(seed));
    write(ino, 0, pattern(length, seed));
    return ino;
  }

  MountedVolume volume_;
  std::shared_ptr<BrickFaults> faults_;
  Held held_;
  bool grants_ = true;
  bool is_atime_due_ = false;
  size_t most_parts_ = kMostParts;
  std::function<void()> while_asked_;
  std::function<void(FileLayout&)> spoil_;
  std::atomic<int> asked_{0};
  std::atomic<int> opened_{0};
  MemberData data_;
};

TEST_F(MemberDataTest, ReadsWhatThereIs) {
  for (const size_t most : {size_t{1}, size_t{3}, kMostParts}) {
    SCOPED_TRACE(most);
    most_parts_ = most;
    const Ino ino = make_file(*volume_, "file" + std::to_string(most));
    std::minstd_rand random(static_cast<unsigned>(most));
    for (unsigned i = 0; i < 12; ++i) write(ino, random() % (6 * kMiB), pattern(1 + random() % 300'000, i));
    ASSERT_TRUE(volume_->allocate(ino, 0, 7 * kMiB, 100'000, nullptr).ok());
    for (int i = 0; i < 200; ++i) {
      const uint64_t offset = random() % (8 * kMiB);
      const size_t length = 1 + random() % 700'000;
      if (most == 1 && length > 100'000) continue;  // more layouts than one read asks for
      ASSERT_EQ(read(ino, offset, length), brickfs::read(*volume_, ino, offset, length)) << offset << " " << length;
    }
  }
  EXPECT_GE(data_.counts().reads, 300u);
  EXPECT_EQ(opened_, 1);
}

TEST_F(MemberDataTest, WhatIsReadOnceIsNotAskedFor) {
  const Ino ino = make_written(10'000, 1);
  EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  EXPECT_EQ(asked_, 0);
  read(ino, 0, 10);
  EXPECT_EQ(asked_, 1);
}

TEST_F(MemberDataTest, OneLayoutServesManyReads) {
  const Ino ino = make_written(2 * kMiB, 1);
  read(ino, 0, 10);
  const int before = asked_;
  for (uint64_t at = 0; at < 2 * kMiB; at += 4096) ASSERT_EQ(read(ino, at, 4096).size(), 4096u);
  EXPECT_EQ(asked_, before);
}

TEST_F(MemberDataTest, WhatIsRecalledWhileItIsReadDoesNotCount) {
  const Ino ino = make_written(kLong, 1);
  read(ino, 0, 10);
  faults_->set_before_transfers([&] { recall(ino); });
  EXPECT_EQ(read_once(ino, 0, kLong), std::nullopt);
  faults_->set_before_transfers([&] { recall(kOtherIno); });
  EXPECT_EQ(read(ino, 0, kLong), pattern(kLong, 1));
  faults_->set_before_transfers([&] { lapse(); });
  EXPECT_EQ(read_once(ino, 0, kLong), std::nullopt);
  faults_->set_before_transfers(nullptr);
  EXPECT_EQ(read(ino, 0, kLong), pattern(kLong, 1));
  faults_->set_before_transfers([&] { held_.let_go(); });
  EXPECT_EQ(read_once(ino, 0, kLong), std::nullopt);
  faults_->set_before_transfers(nullptr);
  const uint64_t batches = faults_->calls(BrickCall::kTransfer);
  EXPECT_EQ(read_once(ino, 0, kLong), std::nullopt);
  EXPECT_EQ(faults_->calls(BrickCall::kTransfer), batches) << "it does not hold any more";
}

// Its units may be another file's by then.
TEST_F(MemberDataTest, WhatIsReadWhileARecallIsTakenDoesNotCount) {
  const Ino ino = make_written(kLong, 1);
  read(ino, 0, 10);
  held_.recall(ino, Lease::kData);
  faults_->set_before_transfers([&] { data_.recall(ino); });
  EXPECT_EQ(read_once(ino, 0, kLong), std::nullopt);
}

TEST_F(MemberDataTest, NoRecallOvertakesItsGrant) {
  const Ino ino = make_written(10'000, 1);
  read(ino, 0, 10);
  recall(ino);
  while_asked_ = [&] { recall(ino); };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  while_asked_ = nullptr;
  EXPECT_EQ(read(ino, 0, 10'000), pattern(10'000, 1));
}

TEST_F(MemberDataTest, WhileThisMachineChangesItNothingCounts) {
  const Ino ino = make_written(kLong, 1);
  read(ino, 0, 10);
  {
    const Held::Change changing = change(ino);
    const int before = asked_;
    EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
    EXPECT_EQ(asked_, before);
  }
  EXPECT_EQ(read(ino, 0, kLong), pattern(kLong, 1));
  faults_->set_before_transfers([&] { (void)change(ino); });
  EXPECT_EQ(read_once(ino, 0, kLong), std::nullopt) << "it began and ended while the bytes were read";
}

TEST_F(MemberDataTest, WhatWasReadIsReadAgainFromMemory) {
  const Ino ino = make_written(kLong, 1);
  const auto expected = [](unsigned seed, size_t begin, size_t end) {
    const Content all = pattern(kLong, seed);
    return Content(all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end));
  };
  read(ino, 0, 10);
  EXPECT_EQ(read(ino, 40'960, 20'480), expected(1, 40'960, 61'440));
  const uint64_t batches = faults_->calls(BrickCall::kTransfer);
  EXPECT_EQ(read_once(ino, 3'000, 1'000), expected(1, 3'000, 4'000)) << "the whole page was read";
  EXPECT_EQ(read_once(ino, 45'000, 10'000), expected(1, 45'000, 55'000));
  EXPECT_EQ(faults_->calls(BrickCall::kTransfer), batches);
  EXPECT_EQ(data_.counts().cached, 2u);
  // The end of the file is what it is.
  EXPECT_EQ(read(ino, kLong - 500, 4'096), expected(1, kLong - 500, kLong));
  EXPECT_EQ(read_once(ino, kLong - 500, 4'096), expected(1, kLong - 500, kLong));
  EXPECT_EQ(read_once(ino, kLong, 10), Content());
  EXPECT_EQ(faults_->calls(BrickCall::kTransfer), batches + 1);
}

TEST_F(MemberDataTest, WhatIsInMemoryCountsAsLongAsTheLease) {
  const Ino ino = make_written(kLong, 1);
  const auto is_cached = [&] {
    const uint64_t before = data_.counts().cached;
    const auto bytes = read_once(ino, 0, 4'096);
    return bytes && data_.counts().cached > before;
  };
  const auto read_anew = [&] {
    read(ino, 0, 4'096);
    return is_cached();
  };
  ASSERT_TRUE(read_anew());
  recall(kOtherIno);
  EXPECT_TRUE(is_cached());
  recall(ino);
  EXPECT_FALSE(is_cached());
  ASSERT_TRUE(read_anew());
  lapse();
  EXPECT_FALSE(is_cached());
  ASSERT_TRUE(read_anew());
  (void)change(ino);
  EXPECT_FALSE(is_cached());
  ASSERT_TRUE(read_anew());
  held_.let_go();
  EXPECT_EQ(read_once(ino, 0, 4'096), std::nullopt);
}

TEST_F(MemberDataTest, WhatIsReadThroughIsReadAhead) {
  constexpr size_t kLength = 2 * kMiB + 1'000;
  const Ino ino = make_written(kLength, 1);
  const Content all = pattern(kLength, 1);
  read(ino, 0, 10);
  for (const size_t step : {size_t{4'096}, size_t{1'000}, size_t{50'000}}) {
    SCOPED_TRACE(step);
    recall(ino);
    read(ino, 0, 10);
    const uint64_t batches = faults_->calls(BrickCall::kTransfer);
    for (size_t at = 0; at < kLength; at += step) {
      const Content bytes = read(ino, at, step);
      const size_t end = std::min(at + step, kLength);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), all.begin() + static_cast<ptrdiff_t>(at),
                             all.begin() + static_cast<ptrdiff_t>(end)))
          << at;
    }
    EXPECT_LE(faults_->calls(BrickCall::kTransfer), batches + 2 * (kLength / MemberData::kReadAhead + 2));
  }
}

TEST_F(MemberDataTest, WhatIsReadHereAndThereIsNotReadAhead) {
  constexpr uint64_t kReads = 50;
  const Ino ino = make_written(kMiB, 1);
  for (const size_t length : {size_t{10}, size_t{4'096}})
    for (uint64_t i = kReads; i > 0; --i) read(ino, i * 5 * 4'096, length);
  EXPECT_EQ(data_.counts().cached, kReads) << "what was read by parts is there whole, and nothing beside it";
}

TEST_F(MemberDataTest, NoOwnChangeOvertakesAGrant) {
  const Ino ino = make_written(10'000, 1);
  read(ino, 0, 10);
  recall(ino);
  while_asked_ = [&] { (void)change(ino); };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  while_asked_ = nullptr;
  EXPECT_EQ(read(ino, 0, 10'000), pattern(10'000, 1));
}

// Also of a file that is forgotten meanwhile.
TEST_F(MemberDataTest, AChangeThatIsGivenUpGoesOnUntilItIsKnownToBeOver) {
  const Ino ino = make_written(10'000, 1);
  read(ino, 0, 10);
  {
    const Held::Change given_up = change(ino);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
    data_.forget(ino);
    held_.forget(ino);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  }
  EXPECT_EQ(read(ino, 0, 10'000), pattern(10'000, 1));
}

TEST_F(MemberDataTest, WithoutALeaseTheCoordinatorReads) {
  const Ino ino = make_written(10'000, 1);
  read(ino, 0, 10);
  recall(ino);
  grants_ = false;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  EXPECT_LT(asked_, 10) << "a file that others write is not asked for with each read";
  grants_ = true;
  EXPECT_EQ(read(ino, 0, 10'000), pattern(10'000, 1));
}

TEST_F(MemberDataTest, AnotherLifeOfTheBrickOrLeaseOfTheVolumeIsNotRead) {
  const Ino ino = make_written(10'000, 1);
  read(ino, 0, 10);
  lapse();
  spoil_ = [](FileLayout& layout) { layout.places[0].bricks[0].boot = BootId{1}; };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  lapse();
  spoil_ = [](FileLayout& layout) { layout.places[0].bricks[0].epoch = Epoch{77}; };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  lapse();
  spoil_ = nullptr;
  EXPECT_EQ(read(ino, 0, 10'000), pattern(10'000, 1));
}

TEST_F(MemberDataTest, NonsenseFromTheCoordinatorIsNotRead) {
  const Ino ino = make_written(10'000, 1);
  read(ino, 0, 10);
  const std::vector<std::function<void(FileLayout&)>> spoilt = {
      [](FileLayout& layout) { layout.places.clear(); },
      [](FileLayout& layout) { layout.places[0].bricks.clear(); },
      [](FileLayout& layout) { layout.end = 0; },
      [](FileLayout& layout) { layout.begin = 4096; },
      [](FileLayout& layout) { layout.parts.push_back(layout.parts[0]); },
      [](FileLayout& layout) { layout.parts[0].length_bytes = UINT64_MAX; },
      [](FileLayout& layout) { layout.parts[0].address = UINT64_MAX; },
      [](FileLayout& layout) { layout.parts[0].address = 777 * kGiB; },
  };
  for (const auto& spoil : spoilt) {
    lapse();
    spoil_ = spoil;
    for (const int before = asked_; asked_ == before;) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  }
}

TEST_F(MemberDataTest, ABrickThatIsAwayIsAskedForLater) {
  const Ino ino = make_written(kLong, 1);
  read(ino, 0, 10);
  faults_->refuse(true);
  faults_->lose();
  const auto begun = steady_clock::now();
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(read_once(ino, 0, kLong), std::nullopt);
  EXPECT_LT(steady_clock::now() - begun, seconds(5)) << "nobody waits for it";
  faults_->refuse(false);
  EXPECT_EQ(read(ino, 0, kLong), pattern(kLong, 1));
}

TEST_F(MemberDataTest, ABrickThatCannotBeOpenedIsLeftAloneForAWhile) {
  const Ino ino = make_written(10'000, 1);
  faults_->refuse(true);
  const auto until = steady_clock::now() + milliseconds(300);
  while (steady_clock::now() < until) EXPECT_EQ(read_once(ino, 0, 10), std::nullopt);
  EXPECT_LE(opened_, 2);
  faults_->refuse(false);
  EXPECT_EQ(read(ino, 0, 10'000), pattern(10'000, 1));
}

TEST_F(MemberDataTest, ATimeOfReadingThatIsDueIsTheCoordinators) {
  const Ino ino = make_written(10'000, 1);
  read(ino, 0, 10);
  recall(ino);
  is_atime_due_ = true;
  EXPECT_EQ(read(ino, 0, 10).size(), 10u) << "who does not touch it";
  EXPECT_EQ(read_once(ino, 0, 10, true), std::nullopt);
  EXPECT_TRUE(read_once(ino, 0, 10, true)) << "once is enough";
}

TEST_F(MemberDataTest, MemoryIsBounded) {
  const Ino first = make_written(4096, 1);
  read(first, 0, 10);
  spoil_ = [](FileLayout& layout) {
    layout.parts.clear();
    for (uint64_t i = 0; i < kMostParts; ++i) layout.parts.push_back({i * 8192, i * 8192, 4096});
    layout.size_bytes = 0;
  };
  constexpr uint64_t kFiles = MemberData::kMostKept / kMostParts + 10;
  for (uint64_t i = 0; i < kFiles; ++i) {
    const Ino ino = make_file(*volume_, "many" + std::to_string(i));
    EXPECT_EQ(read(ino, 0, 10).size(), 0u);
  }
  spoil_ = nullptr;
  const int before = asked_;
  read(first, 0, 10);
  EXPECT_EQ(asked_, before + 1) << "that of the file which was read longest ago has gone";
}

}  // namespace
}  // namespace brickfs::shared
