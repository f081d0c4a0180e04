// SPDX-License-Identifier: Apache-2.0
// What becomes of units that a member has filled, when it does not know what became of its asking for them.
#include "fs/shared/member_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "fs/operations/filesystem.h"
#include "fs/shared/unit_lender.h"
#include "tests/support/eventually.h"
#include "tests/support/restarting_brick.h"
#include "tests/support/sharing_bed.h"
#include "transport/volume/volume_set.h"

namespace brickfs::shared {
namespace {

using testing::eventually;

constexpr SessionId kSession = 1;
constexpr ClientId kBorrower{100};
constexpr uint64_t kNumberOfLender = 5;

class MemberUnitsTest : public ::testing::Test {
 protected:
  MemberUnitsTest() {
    VolumeOptions options;
    options.open.client = ClientId{7};
    auto volume = VolumeSet::open(brick_.make_brick(), options, nullptr);
    EXPECT_TRUE(volume.ok());
    std::string why;
    auto mounted = Filesystem::mount(std::move(*volume), {.shared = true}, &why);
    EXPECT_TRUE(mounted.ok()) << why;
    filesystem_ = std::move(*mounted);
    lender_ = std::make_unique<UnitLender>(*filesystem_, kNumberOfLender, [](SessionId) {});
    units_ = std::make_unique<MemberUnits>(
        bricks_, true,
        MemberUnits::Coordinator{.get = [this](const GetUnits& asked) -> Result<Lent> {
                                   return lender_->lend(kSession, kBorrower, asked.blocks, nullptr);
                                 },
                                 .give_back = [this](const ReturnUnits& given) -> Result<Returned> {
                                   lender_->give_back(kSession, given);
                                   const Returned returned{lender_->bytes().begun(kSession)};
                                   ++returned_;
                                   return returned;
                                 },
                                 .commit = [] { return Status(); },
                                 .epoch = [] { return uint64_t{0}; }});
  }
  ~MemberUnitsTest() override {
    units_.reset();
    lender_.reset();
    filesystem_.reset();
  }
  WriteUnits fill() {
    std::vector<std::byte> bytes(MemberUnits::kLeastBytes, std::byte{7});
    const LocalSlice from{bytes.data(), static_cast<uint32_t>(bytes.size()), 0};
    std::optional<WriteUnits> filled;
    EXPECT_TRUE(eventually([&] { return (filled = units_->fill(std::span(&from, 1))).has_value(); }));
    return filled.value_or(WriteUnits());
  }
  void give_up(const WriteUnits& asked) {
    const int before = returned_;
    units_->answered(asked, Error(EINTR, "interrupted"), false);
    EXPECT_NE(units_->bytes(asked.tag), nullptr) << "it may have been done";
    units_->is_over(asked);
    EXPECT_TRUE(eventually([&] { return returned_ > before; }));
  }

  RestartingBrick brick_{160, 320};
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<UnitLender> lender_;
  std::shared_ptr<BrickFaults> faults_ =
      std::make_shared<BrickFaults>([this] { return make_embedded_brick(brick_.service()); });
  MemberBricks bricks_{follow(faults_, kBorrower), 0};
  std::atomic<int> returned_{0};
  std::unique_ptr<MemberUnits> units_;
};

TEST_F(MemberUnitsTest, OfAWriteThatWasGivenUpAndNotDoneAreGivenBack) {
  const WriteUnits asked = fill();
  give_up(asked);
  EXPECT_EQ(lender_->take(kSession, kNumberOfLender, asked.runs).code(), EAGAIN) << "they are the volume's";
  EXPECT_TRUE(eventually([&] { return units_->bytes(asked.tag) == nullptr; })) << "nobody asks for its bytes";
}

TEST_F(MemberUnitsTest, OfAWriteThatWasGivenUpAndDoneKeepTheirBytesUntilACommit) {
  const WriteUnits asked = fill();
  auto taken = lender_->take(kSession, kNumberOfLender, asked.runs);
  ASSERT_TRUE(taken.ok());
  auto kept = lender_->bytes().keep(kSession, "a member", asked.tag, asked.runs);
  auto uncommitted = kept.bytes();
  kept.are_a_files();
  taken->are_a_files();
  give_up(asked);
  units_->committed(lender_->bytes().committed(kSession));
  EXPECT_NE(units_->bytes(asked.tag), nullptr);
  uncommitted.reset();
  EXPECT_TRUE(eventually([&] {
    units_->committed(lender_->bytes().committed(kSession));
    return units_->bytes(asked.tag) == nullptr;
  }));
}

// A block whose lending has ended can be lent to the same member again, before it has returned what it gave up.
TEST_F(MemberUnitsTest, ThatAreLentAnewAreNotGivenBack) {
  const WriteUnits asked = fill();
  const WriteUnits other = fill();
  auto taken = lender_->take(kSession, kNumberOfLender, asked.runs);
  ASSERT_TRUE(taken.ok());
  taken->are_a_files();
  give_up(asked);
  EXPECT_TRUE(lender_->take(kSession, kNumberOfLender, other.runs).ok()) << "the rest of that block";
}

}  // namespace
}  // namespace brickfs::shared
