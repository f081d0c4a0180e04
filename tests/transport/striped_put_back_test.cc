// SPDX-License-Identifier: Apache-2.0
// The store of a member of a striped set is replaced by its older copy: that is noticed, and no crash is taken for it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/restarting_brick.h"
#include "transport/volume/set_membership.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

constexpr uint64_t kBlocks = 16;
constexpr BlockRange kData{BlockAddress{kPlaceBytes + kBlockBytes}, 1};  // on b

class StripedPutBack : public ::testing::Test {
 protected:
  Result<std::unique_ptr<VolumeSet>> try_open(bool accept_older = false, OpenMode mode = OpenMode::kExclusive) {
    std::vector<SetBrick> bricks;
    bricks.push_back({"a", a_.make_brick()});
    bricks.push_back({"b", b_.make_brick()});
    VolumeOptions options;
    options.open.client = ClientId{next_client_ += 0x100};
    options.open.client_name = "test";
    options.open.mode = mode;
    options.accept_older = accept_older;
    refusal_ = {};
    auto set = VolumeSet::open(std::move(bricks), options, false, &refusal_);
    if (set.ok()) (*set)->set_commit_position([] { return uint64_t{7}; });
    return set;
  }
  std::unique_ptr<VolumeSet> open(bool accept_older = false) {
    auto set = try_open(accept_older);
    EXPECT_TRUE(set.ok()) << set.error().what() << ": " << refusal_.why;
    return set.ok() ? std::move(*set) : nullptr;
  }
  // With the value 1 on b, by a client that has ended.
  void begin() {
    const auto set = open();
    ASSERT_TRUE(set->alloc(kData).ok());
    put(*set, 1);
    ASSERT_TRUE(set->close().ok());
  }
  static Status write(VolumeSet& set, int value) {
    std::vector<std::byte> bytes(4096, static_cast<std::byte>(value));
    const Piece piece{raw(kData.start), {{bytes.data(), 4096, 0}}};
    return set.write(std::span(&piece, 1), Stage::kData);
  }
  static void put(VolumeSet& set, int value) {
    ASSERT_TRUE(write(set, value).ok());
    ASSERT_TRUE(set.commit().ok());
  }
  void put_in_a_session(int value) {
    const auto set = open();
    put(*set, value);
    ASSERT_TRUE(set->close().ok());
  }
  static int value_of(VolumeSet& set) {
    std::vector<std::byte> bytes(4096);
    const Piece piece{raw(kData.start), {{bytes.data(), 4096, 0}}};
    EXPECT_TRUE(set.read(std::span(&piece, 1)).ok());
    return static_cast<int>(bytes[0]);
  }
  void expect_refused(OpenMode mode = OpenMode::kExclusive) {
    EXPECT_EQ(try_open(false, mode).code(), EUCLEAN);
    EXPECT_EQ(refusal_.place, 1u);
    EXPECT_EQ(refusal_.why.find("b is of an older store, of commit "), 0u) << refusal_.why;
    EXPECT_NE(refusal_.why.find("accept_older"), std::string::npos) << refusal_.why;
  }
  void expect_value(int value) {
    const auto set = open();
    EXPECT_EQ(value_of(*set), value);
    EXPECT_TRUE(set->close().ok());
  }

  RestartingBrick a_{kBlocks, kBlocks};
  RestartingBrick b_{kBlocks, kBlocks};
  SetRefusal refusal_;
  uint64_t next_client_ = 0;
};

TEST_F(StripedPutBack, AStoreFromAnEarlierMountIsRefusedUnlessItIsAccepted) {
  begin();
  b_.copy_store();
  put_in_a_session(2);
  b_.put_store_back();
  expect_refused();
  expect_refused();  // however often that is tried
  expect_refused(OpenMode::kFollow);
  const auto set = open(true);
  EXPECT_EQ(value_of(*set), 1);
  put(*set, 3);
  ASSERT_TRUE(set->close().ok());
  expect_value(3);
}

TEST_F(StripedPutBack, AStoreFromTheSameMountIsRefused) {
  for (const bool crash : {false, true}) {
    begin();
    auto set = open();
    put(*set, 2);
    b_.copy_running_store();
    put(*set, 3);
    if (!crash) {
      ASSERT_TRUE(set->close().ok());
    }
    set.reset();
    b_.put_store_back();
    expect_refused();
    set = open(true);
    ASSERT_TRUE(set->free(kData).ok());
    ASSERT_TRUE(set->commit().ok());
    ASSERT_TRUE(set->close().ok());
  }
}

// From before commits were counted.
TEST_F(StripedPutBack, AStoreThatWasNeverCountedIsRefused) {
  ASSERT_TRUE(open()->close().ok());
  b_.copy_store();
  begin();
  b_.put_store_back();
  expect_refused();
}

// What was accepted is another history: the former one is none of it.
TEST_F(StripedPutBack, TheNewerStoreIsNotTakenForTheOneThatWasAcceptedInstead) {
  begin();
  b_.copy_store();
  for (const int value : {2, 3, 4}) put_in_a_session(value);
  b_.swap_stores();
  const auto set = open(true);
  put(*set, 5);
  ASSERT_TRUE(set->close().ok());
  b_.put_store_back();
  expect_refused();
}

TEST_F(StripedPutBack, UnderAMountItIsTheEndOfThat) {
  begin();
  auto set = open();
  put(*set, 2);
  b_.copy_store();
  put(*set, 3);
  b_.put_store_back();
  EXPECT_EQ(write(*set, 4).code(), EIO);
  EXPECT_EQ(set->final_error().code(), EIO);
}

// Client and brick die at each call of a session, with what is uncommitted gone or not.
TEST_F(StripedPutBack, NoCrashIsTakenForIt) {
  begin();
  constexpr uint64_t kCalls = 12;  // more than there are
  for (uint64_t nth = 1; nth <= kCalls; ++nth) {
    for (const auto when : {BrickFaults::When::kBefore, BrickFaults::When::kAfter}) {
      for (const bool restarts : {false, true}) {
        SCOPED_TRACE(nth);
        auto set = open();
        RestartingBrick& victim = nth % 2 == 0 ? a_ : b_;
        victim.faults().lose_at(nth, when);
        for (const int value : {10, 11, 12}) put(*set, value);
        ASSERT_TRUE(write(*set, 13).ok());
        set.reset();
        victim.faults().lose_at(0, when);
        if (restarts) b_.restart();
        if (restarts && nth % 3 == 0) a_.restart();
        const auto again = open();
        ASSERT_NE(again, nullptr);
        EXPECT_GE(value_of(*again), 12);
        ASSERT_TRUE(again->close().ok());
      }
    }
  }
}

// The record of a program that does not count says nothing, whatever stands behind it.
TEST_F(StripedPutBack, ARecordWithoutCountsClaimsNothing) {
  begin();
  b_.copy_store();
  const auto set = open();
  put(*set, 2);
  VolumeClient& first = set->member(0).first();
  const auto record = read_commit_record(first, set->id())->value();
  ASSERT_GT(record.counts[1], 0u);
  StoredCommitRecord stored =
      encode_commit_record(set->id(), record.number + 2, record.position, record.boots, {}).record;
  const Piece piece{kCommitRecordAddress[record.number % 2],
                    {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  ASSERT_TRUE(first.write(std::span(&piece, 1), Stage::kJournal).ok());
  set->set_commit_position(nullptr);
  ASSERT_TRUE(set->commit().ok());
  EXPECT_EQ(read_commit_record(first, set->id())->value().counts[1], 0u);
  ASSERT_TRUE(set->close().ok());
  b_.put_store_back();
  expect_value(1);
}

}  // namespace
}  // namespace brickfs
