// SPDX-License-Identifier: Apache-2.0
// A volume on several real bricks: routing, which bricks belong together, the order of commits, bricks that go away.
#include "transport/volume/volume_set.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "server/service/embedded_brick.h"
#include "tests/support/restarting_brick.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

using Contents = std::vector<std::byte>;

Contents filled(char c, size_t length = 4096) { return Contents(length, static_cast<std::byte>(c)); }

uint64_t at(size_t place, uint64_t block) { return place * kPlaceBytes + block * kBlockBytes; }
BlockRange range_at(size_t place, uint64_t block, uint64_t count) { return {BlockAddress{at(place, block)}, count}; }

Status put(VolumeSet& set, uint64_t address, Contents bytes, Stage stage = Stage::kData) {
  const Piece piece{address, {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  return set.write(std::span(&piece, 1), stage);
}

Contents get(VolumeSet& set, uint64_t address, size_t length = 4096) {
  Contents bytes(length);
  const Piece piece{address, {{bytes.data(), static_cast<uint32_t>(length), 0}}};
  EXPECT_TRUE(set.read(std::span(&piece, 1)).ok());
  return bytes;
}

// Bricks with names a, b, c ..., and sets of some of them in some order.
class VolumeSetTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBlocks = 16;

  RestartingBrick& brick(char name) {
    const auto index = static_cast<size_t>(name - 'a');
    while (bricks_.size() <= index) bricks_.push_back(std::make_unique<RestartingBrick>(kBlocks, kBlocks));
    return *bricks_[index];
  }

  Result<std::unique_ptr<VolumeSet>> try_open(const std::string& names, bool grow = false,
                                              OpenMode mode = OpenMode::kExclusive) {
    std::vector<SetBrick> bricks;
    for (const char name : names) bricks.push_back({std::string(1, name), brick(name).make_brick()});
    VolumeOptions options;
    options.open.client = ClientId{next_client_ += 0x100};
    options.open.client_name = "test";
    options.open.mode = mode;
    options.soft = soft_;
    refusal_ = {};
    return VolumeSet::open(std::move(bricks), options, grow, &refusal_);
  }
  std::unique_ptr<VolumeSet> open(const std::string& names, bool grow = false) {
    auto set = try_open(names, grow);
    EXPECT_TRUE(set.ok()) << set.error().what() << " " << refusal_.why;
    return set.ok() ? std::move(*set) : nullptr;
  }
  // The line, and that nobody holds anything afterwards.
  std::string why_not(const std::string& names, bool grow = false) {
    const auto set = try_open(names, grow);
    EXPECT_FALSE(set.ok()) << names;
    return refusal_.why;
  }
  void make(const std::string& names) { ASSERT_TRUE(open(names)->close().ok()); }

  std::optional<std::chrono::milliseconds> soft_;
  SetRefusal refusal_;
  std::vector<std::unique_ptr<RestartingBrick>> bricks_;
  uint64_t next_client_ = 0;
};

TEST_F(VolumeSetTest, BlocksAreOnTheBrickOfTheirGroup) {
  const auto set = open("abc");
  EXPECT_EQ(set->places(), 3u);
  for (size_t place = 0; place < 3; ++place) {
    ASSERT_TRUE(set->alloc(range_at(place, 1, 2)).ok());
    ASSERT_TRUE(put(*set, at(place, 1) + 8192, filled(static_cast<char>('0' + place), 3 * kMiB)).ok());
  }
  for (size_t place = 0; place < 3; ++place) {
    EXPECT_EQ(get(*set, at(place, 2)), filled(static_cast<char>('0' + place)));
    EXPECT_EQ(set->member(place).list()->size(), 1u);
  }
  const auto listed = set->list();
  ASSERT_TRUE(listed.ok());
  // The marks of the members are not the volume's.
  EXPECT_EQ(*listed, (std::vector<BlockRange>{range_at(0, 0, 3), range_at(1, 1, 2), range_at(2, 1, 2)}));
  EXPECT_EQ(set->session().capacity_blocks, 3 * kBlocks);
  EXPECT_EQ(set->stat()->volume_used_blocks, 3u + 3u + 3u);
  ASSERT_TRUE(set->free(range_at(1, 1, 1)).ok());
  EXPECT_EQ(set->list()->size(), 3u);
}

TEST_F(VolumeSetTest, OneReadOrWriteMayTouchSeveralBricks) {
  const auto set = open("ab");
  ASSERT_TRUE(set->alloc(range_at(0, 1, 1)).ok());
  ASSERT_TRUE(set->alloc(range_at(1, 1, 1)).ok());
  Contents one = filled('x');
  Contents two = filled('y');
  std::vector<Piece> pieces = {{at(1, 1), {{one.data(), 4096, 0}}}, {at(0, 1), {{two.data(), 4096, 0}}}};
  ASSERT_TRUE(set->write(pieces, Stage::kData).ok());
  std::swap(pieces[0].local, pieces[1].local);
  ASSERT_TRUE(set->read(pieces).ok());
  EXPECT_EQ(one, filled('y'));
  EXPECT_EQ(two, filled('x'));
  const Piece beyond{at(2, 1), {{one.data(), 4096, 0}}};
  EXPECT_EQ(set->read(std::span(&beyond, 1)).code(), EIO);
}

TEST_F(VolumeSetTest, BricksHaveToBeThoseOfTheSet) {
  make("abc");
  make("de");
  EXPECT_TRUE(open("abc")->close().ok());
  EXPECT_EQ(why_not("ab"), "a: the volume is on 3 bricks, 2 are named: c is missing");
  EXPECT_EQ(why_not("acb"), "c: is brick 3 of the volume and named as brick 2: the order is that of joining");
  EXPECT_NE(why_not("abe").find("e: belongs to another volume ("), std::string::npos);
  EXPECT_EQ(why_not("abf"), "f: is not brick 3 of this volume, which joined as c: it holds nothing");
  EXPECT_EQ(why_not("aba"), "a: that is the same brick as a");
  EXPECT_EQ(why_not("abcf"), "f: does not belong to this volume of 3 bricks: to add it, ask for it (-o grow)");
  EXPECT_NE(why_not("abcd", true).find("d: holds 1 block(s) already"), std::string::npos);
  EXPECT_NE(why_not("abce", true).find("e: is brick 2 of the volume "), std::string::npos);
  EXPECT_NE(why_not("bc").find("b: is brick 2 of the volume "), std::string::npos);
  EXPECT_NE(why_not("fb").find("b: is brick 2 of the volume "), std::string::npos);
  // Whatever was refused: everything is as it was, and free.
  EXPECT_TRUE(open("abc")->close().ok());
  EXPECT_TRUE(open("de")->close().ok());
}

TEST_F(VolumeSetTest, BricksAreOfOneDurability) {
  bricks_.push_back(std::make_unique<RestartingBrick>(kBlocks, kBlocks));
  bricks_.push_back(std::make_unique<RestartingBrick>(kBlocks, 0));
  EXPECT_EQ(why_not("ab"), "b: is a volatile brick and a a durable one: those of a set are all of one kind");
}

TEST_F(VolumeSetTest, AHeldBrickKeepsTheSetFromBeingOpenedAndIsNamed) {
  make("ab");
  VolumeOptions options;
  options.open.client = ClientId{7};
  options.open.client_name = "holder";
  auto holder = VolumeSet::open(make_embedded_brick(brick('b').service()), options, nullptr);
  ASSERT_TRUE(holder.ok());
  EXPECT_EQ(try_open("ab").code(), EBUSY);
  EXPECT_EQ(refusal_.place, 1u);
  EXPECT_EQ(refusal_.holder.name, "holder");
  ASSERT_TRUE((*holder)->close().ok());
  EXPECT_TRUE(open("ab")->close().ok()) << "what was opened of it was closed again";
}

TEST_F(VolumeSetTest, AVolumeOfOneBrickBecomesASet) {
  {
    const auto one = open("a");
    ASSERT_TRUE(one->alloc(range_at(0, 0, 3)).ok());
    ASSERT_TRUE(put(*one, at(0, 2), filled('k')).ok());
    ASSERT_TRUE(one->commit().ok());
    ASSERT_TRUE(one->close().ok());
  }
  EXPECT_EQ(why_not("ab"), "a: holds a volume of one brick: to spread it over these, ask for it (-o grow)");
  ASSERT_TRUE(open("ab", true)->close().ok());
  ASSERT_TRUE(open("abc", true)->close().ok());
  const auto set = open("abc");
  EXPECT_EQ(get(*set, at(0, 2)), filled('k'));
  EXPECT_EQ(*set->list(), (std::vector<BlockRange>{range_at(0, 0, 3)}));
}

// The client dies at each call on the way, on either side.
TEST_F(VolumeSetTest, AJoiningThatIsCutShortIsDoneByTheNextOne) {
  constexpr uint64_t kCalls = 20;  // more than it takes
  int cut_short = 0;
  for (const bool grow : {false, true}) {
    for (const char victim : {'a', 'b'}) {
      for (uint64_t nth = 1; nth <= kCalls; ++nth) {
        SCOPED_TRACE(std::string(1, victim) + " call " + std::to_string(nth));
        bricks_.clear();
        if (grow) {
          const auto one = open("a");
          ASSERT_TRUE(one->alloc(range_at(0, 0, 2)).ok());
          ASSERT_TRUE(put(*one, at(0, 1), filled('k')).ok());
          ASSERT_TRUE(one->close().ok());
        }
        soft_ = std::chrono::milliseconds(0);
        brick(victim).faults().lose_at(nth, nth % 2 == 0 ? BrickFaults::When::kBefore : BrickFaults::When::kAfter);
        cut_short += try_open("ab", grow).ok() ? 0 : 1;
        brick(victim).faults().lose_at(0, BrickFaults::When::kBefore);
        soft_.reset();
        const auto set = open("ab", grow);
        ASSERT_NE(set, nullptr);
        if (grow) {
          EXPECT_EQ(get(*set, at(0, 1)), filled('k'));
        }
        ASSERT_TRUE(set->close().ok());
        ASSERT_TRUE(open("ab")->close().ok());
      }
    }
  }
  EXPECT_GT(cut_short, 10);
}

TEST_F(VolumeSetTest, WhatRefersBecomesDurableLast) {
  const auto set = open("abc");
  for (size_t place = 0; place < 3; ++place) ASSERT_TRUE(set->alloc(range_at(place, 1, 1)).ok());
  ASSERT_TRUE(set->commit().ok());
  std::vector<char> order;
  for (const char name : {'a', 'b', 'c'}) {
    brick(name).faults().set_after_commit([&order, name] { order.push_back(name); });
  }
  ASSERT_TRUE(put(*set, at(1, 1), filled('d')).ok());
  ASSERT_TRUE(put(*set, at(0, 1), filled('j'), Stage::kJournal).ok());
  ASSERT_TRUE(set->commit().ok());
  EXPECT_EQ(order, (std::vector<char>{'b', 'a'})) << "c has nothing to commit";
  ASSERT_TRUE(set->close().ok());
}

TEST_F(VolumeSetTest, NothingThatRefersIsCommittedWhenTheOthersCannot) {
  const auto set = open("ab");
  for (size_t place = 0; place < 2; ++place) ASSERT_TRUE(set->alloc(range_at(place, 1, 1)).ok());
  ASSERT_TRUE(put(*set, at(1, 1), filled('d')).ok());
  ASSERT_TRUE(put(*set, at(0, 1), filled('j'), Stage::kJournal).ok());
  const size_t before = brick('a').faults().commits().size();
  brick('b').faults().answer(BrickCall::kCommit, EIO);
  EXPECT_EQ(set->commit().code(), EIO);
  EXPECT_EQ(brick('a').faults().commits().size(), before);
  EXPECT_TRUE(set->commit().ok()) << "nothing is forgotten";
  EXPECT_EQ(brick('a').faults().commits().size(), before + 1);
}

// Commits that a brick's own client asks for, when memory is short, keep the order too.
TEST_F(VolumeSetTest, ACommitForWantOfMemoryKeepsTheOrder) {
  bricks_.push_back(std::make_unique<RestartingBrick>(4, 64));
  const auto set = open("ab");
  ASSERT_TRUE(set->alloc(range_at(0, 1, 12)).ok());
  ASSERT_TRUE(set->alloc(range_at(1, 1, 1)).ok());
  ASSERT_TRUE(put(*set, at(1, 1), filled('d')).ok());
  set->set_commit_position([] { return uint64_t{42}; });
  const size_t before = brick('b').faults().commits().size();
  for (uint64_t block = 1; block <= 12; ++block) {
    ASSERT_TRUE(put(*set, at(0, block), filled('j'), Stage::kJournal).ok());
  }
  EXPECT_EQ(brick('b').faults().commits().size(), before + 1);
  for (uint64_t block = 1; block <= 12; ++block) EXPECT_EQ(get(*set, at(0, block)), filled('j'));
  set->set_commit_position(nullptr);
  ASSERT_TRUE(set->close().ok());
}

TEST_F(VolumeSetTest, ABrickThatRestartsGetsItsOwnBytesAgain) {
  const auto set = open("ab");
  for (size_t place = 0; place < 2; ++place) {
    ASSERT_TRUE(set->alloc(range_at(place, 1, 1)).ok());
    ASSERT_TRUE(put(*set, at(place, 1), filled('u')).ok());
  }
  brick('b').restart();
  EXPECT_EQ(get(*set, at(1, 1)), filled('u'));
  brick('a').restart();
  EXPECT_EQ(get(*set, at(0, 1)), filled('u'));
  EXPECT_TRUE(set->commit().ok());
}

TEST_F(VolumeSetTest, WhatDoesNotTouchABrickThatIsAwayGoesOn) {
  soft_ = std::chrono::milliseconds(50);
  const auto set = open("abc");
  for (size_t place = 0; place < 3; ++place) ASSERT_TRUE(set->alloc(range_at(place, 1, 1)).ok());
  ASSERT_TRUE(set->commit().ok());
  brick('b').faults().refuse(true);
  brick('b').faults().lose();
  EXPECT_TRUE(put(*set, at(2, 1), filled('c')).ok());
  EXPECT_TRUE(put(*set, at(0, 1), filled('a'), Stage::kJournal).ok());
  EXPECT_TRUE(set->commit().ok()) << "nothing is uncommitted there";
  EXPECT_EQ(put(*set, at(1, 1), filled('b')).code(), EIO);
  EXPECT_TRUE(set->is_away());
  const LinkState state = set->link_state();
  EXPECT_EQ(state.kind, LinkState::Kind::kWaiting);
  EXPECT_EQ(state.text.substr(0, 3), "b: ");
  brick('b').faults().refuse(false);
}

TEST_F(VolumeSetTest, AMemberThatIsFencedIsTheEnd) {
  const auto set = open("ab");
  brick('b').faults().fence();
  brick('b').faults().lose();
  for (int i = 0; i < 500 && set->final_error().ok(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(set->final_error().code(), ESTALE);
}

// The client and one brick die together; place 0 goes on.
TEST_F(VolumeSetTest, BehindWhatWasCommittedNothingIsBelievedOnceABrickHasRestarted) {
  {
    const auto set = open("ab");
    ASSERT_TRUE(set->alloc(range_at(1, 1, 1)).ok());
    EXPECT_FALSE(set->trusted_position());
    set->set_commit_position([] { return uint64_t{7}; });
    ASSERT_TRUE(set->commit().ok());
    set->set_commit_position(nullptr);
  }
  {
    auto again = try_open("ab");
    ASSERT_TRUE(again.ok());
    EXPECT_FALSE((*again)->trusted_position()) << "all bricks have lived on";
  }
  brick('b').restart();
  {
    auto again = try_open("ab");
    ASSERT_TRUE(again.ok()) << refusal_.why;
    EXPECT_EQ((*again)->trusted_position(), 7u);
    (*again)->set_commit_position([] { return uint64_t{9}; });
    ASSERT_TRUE((*again)->commit().ok());
    (*again)->set_commit_position(nullptr);
  }
  auto again = try_open("ab");
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE((*again)->trusted_position());
}

// A commit is cut off, and its record lands but for one word; who comes next is cut off when just that word has landed.
TEST_F(VolumeSetTest, TwoTornCommitRecordsMakeNoWholeOne) {
  const auto set = open("ab");
  ASSERT_TRUE(set->alloc(range_at(0, 1, 1)).ok());
  for (const uint64_t position : {7, 8}) {
    set->set_commit_position([position] { return position; });
    ASSERT_TRUE(put(*set, at(0, 1), filled('x')).ok());
    ASSERT_TRUE(set->commit().ok());
  }
  set->set_commit_position(nullptr);
  VolumeClient& first = set->member(0).first();
  StoredCommitRecord stored;
  const auto slot = std::as_writable_bytes(std::span(&stored, 1));
  const Contents former = get(*set, kCommitRecordAddress[1], sizeof(stored));
  std::ranges::copy(former, slot.begin());
  const SetId id = stored.set;
  EXPECT_EQ(stored.number, 1u);
  EXPECT_EQ(read_commit_record(first, id)->value().number, 2u);

  const BootId boots[] = {BootId{0}, set->member(1).session().boot};
  StoredCommitRecord torn = encode_commit_record(id, 3, 99, boots, {}).record;
  torn.number = stored.number;
  const auto bytes = std::as_bytes(std::span(&torn, 1));
  const uint64_t number = 3;
  const auto lands = std::as_bytes(std::span(&number, 1));
  for (const bool clears : {false, true}) {
    ASSERT_TRUE(put(*set, kCommitRecordAddress[1], {bytes.begin(), bytes.end()}).ok());
    if (clears) {
      ASSERT_TRUE(set->clear_torn_commit_record().ok());
    }
    EXPECT_EQ(read_commit_record(first, id)->value().position, 8u);
    ASSERT_TRUE(
        put(*set, kCommitRecordAddress[1] + offsetof(StoredCommitRecord, number), {lands.begin(), lands.end()}).ok());
    EXPECT_EQ(read_commit_record(first, id)->value().position, clears ? 8u : 99u);
  }
}

// A set grows and is cut off, and its member table lands but for one word; the next one, with another member, is cut
// off when just that word has landed.
TEST_F(VolumeSetTest, TwoTornMemberTablesMakeNoWholeOne) {
  const auto set = open("ab");
  VolumeClient& first = set->member(0).first();
  const auto grown = [&](int id) {
    MemberTable table = read_member_table(first)->value();
    table.members.push_back({MemberId{std::byte(id)}, "c"});
    return table;
  };
  ASSERT_EQ(read_member_table(first)->value().generation, 1u);
  const MemberTable second = grown(2);
  MemberTable whole = grown(1);
  ASSERT_TRUE(write_member_table(first, whole).ok());
  ASSERT_EQ(read_member_table(first)->value().generation, 2u);
  Contents torn = get(*set, kMemberTableAddress[0], sizeof(StoredMemberTable));
  std::fill_n(torn.begin() + offsetof(StoredMemberTable, generation), sizeof(uint64_t), std::byte{0});
  const uint64_t generation = 2;
  const auto lands = std::as_bytes(std::span(&generation, 1));
  for (const bool writes : {false, true}) {
    ASSERT_TRUE(put(*set, kMemberTableAddress[0], torn).ok());
    ASSERT_TRUE(set->commit().ok());
    EXPECT_EQ(read_member_table(first)->value().generation, 1u);
    if (writes) {
      brick('a').faults().answer(BrickCall::kCommit, EIO);
      MemberTable table = second;
      EXPECT_EQ(write_member_table(first, table).code(), EIO);
      EXPECT_EQ(get(*set, kMemberTableAddress[0], sizeof(StoredMemberTable)), Contents(sizeof(StoredMemberTable)))
          << "before it is durable";
    }
    ASSERT_TRUE(
        put(*set, kMemberTableAddress[0] + offsetof(StoredMemberTable, generation), {lands.begin(), lands.end()}).ok());
    EXPECT_EQ(read_member_table(first)->value().generation, writes ? 1u : 2u);
  }
  MemberTable table = second;
  ASSERT_TRUE(write_member_table(first, table).ok());
  EXPECT_EQ(read_member_table(first)->value().members.back().id, second.members.back().id);
}

}  // namespace
}  // namespace brickfs
