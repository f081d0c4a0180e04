// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/compare_replicas.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/memory_map_store.h"
#include "tests/support/restarting_brick.h"

namespace brickfs {
namespace {

constexpr BlockRange kCompared{BlockAddress{8 * kBlockBytes}, 3};
constexpr uint64_t kComparedAddress = raw(kCompared.start) + kBlockBytes + 12'288;

class CompareReplicas : public ::testing::Test {
 protected:
  // Durable bricks "tcp://a:20470" ..., each with a copy of the one place; kCompared holds something.
  void make(size_t copies) {
    std::vector<NamedBrick> named;
    for (size_t i = 0; i < copies; ++i) {
      named.push_back({std::string("tcp://") + static_cast<char>('a' + i) + ":20470", ""});
      bricks_[named.back().brick + "/default"] = std::make_unique<RestartingBrick>(64, 64, "default");
    }
    std::string why;
    SetMap map;
    map.set[0] = std::byte{1};
    map.generation = 1;
    map.wanted = copies;
    map.places = *plan_places(named, copies, "default", &why);
    for (MapReplica& replica : map.places[0].replicas) {
      replica.id[0] = static_cast<std::byte>(++ids_);
      replica.state = ReplicaState::kInSync;
    }
    ASSERT_TRUE(map_->replace(map, 0).ok());
    const auto set = open(OpenMode::kExclusive);
    ASSERT_NE(set, nullptr);
    ASSERT_TRUE(set->alloc(kCompared).ok());
    write(*set, 7);
    ASSERT_TRUE(set->commit().ok());
    if (!lets_go_) return;
    ASSERT_TRUE(set->close().ok());
  }
  std::unique_ptr<VolumeSet> open(OpenMode mode) {
    VolumeOptions options;
    options.open.client = ClientId{++ids_};
    options.open.client_name = "test";
    options.open.mode = mode;
    options.open.steal = true;
    SetRefusal refusal;
    const auto make = [this](const std::string& source, std::string*) -> Result<std::unique_ptr<Brick>> {
      if (source == away_) return Error(ECONNREFUSED, "a brick");
      return bricks_.at(source)->make_brick();
    };
    auto set = VolumeSet::open(std::make_unique<MemoryMapStore>(map_), make, options, &refusal);
    EXPECT_TRUE(set.ok()) << set.error().what() << ": " << refusal.why;
    return set.ok() ? std::move(*set) : nullptr;
  }
  template <typename Volume>
  static void write(Volume& volume, int value) {
    std::vector<std::byte> bytes(4096, static_cast<std::byte>(value));
    const Piece piece{kComparedAddress, {{bytes.data(), 4096, 0}}};
    ASSERT_TRUE(volume.write(std::span(&piece, 1), Stage::kData).ok());
  }
  // Behind the map's back.
  std::unique_ptr<VolumeClient> open_copy(char name) {
    VolumeOptions options;
    options.open.client = ClientId{++ids_};
    options.open.steal = true;
    auto copy = VolumeClient::open(bricks_.at(std::string("tcp://") + name + ":20470/default")->make_brick(),
                                   std::move(options), nullptr);
    EXPECT_TRUE(copy.ok());
    return std::move(*copy);
  }
  ReplicaComparison compare() {
    const auto set = open(OpenMode::kReadOnly);
    if (set == nullptr) return {};
    auto found = compare_replicas(*set, {});
    EXPECT_TRUE(found.ok());
    EXPECT_TRUE(set->close().ok());
    return found.ok() ? std::move(*found) : ReplicaComparison();
  }

  std::shared_ptr<MemoryMap> map_ = std::make_shared<MemoryMap>();
  std::map<std::string, std::unique_ptr<RestartingBrick>> bricks_;
  std::string away_;  // a source
  uint64_t ids_ = 0;
  bool lets_go_ = true;
};

TEST_F(CompareReplicas, EqualOnes) {
  make(2);
  const ReplicaComparison found = compare();
  EXPECT_EQ(found.blocks, 4U);  // the first of the place, too
  EXPECT_EQ(found.differing, 0U);
  EXPECT_EQ(found.passed_over, 0U);
  EXPECT_EQ(found.alone, 0U);
}

TEST_F(CompareReplicas, EachThatDiffersIsNamed) {
  make(3);
  for (const char name : {'b', 'c'}) {
    const auto copy = open_copy(name);
    write(*copy, name);
    ASSERT_TRUE(copy->close().ok());
  }
  const ReplicaComparison found = compare();
  ASSERT_EQ(found.differing, 2U);
  EXPECT_EQ(found.differences[0].address, kComparedAddress);
  EXPECT_EQ(found.differences[0].bytes, 4096U);
  EXPECT_EQ(found.differences[0].block, block_of(kComparedAddress));
  EXPECT_EQ(found.differences[0].first, "tcp://a:20470/default");
  EXPECT_EQ(found.differences[0].other, "tcp://b:20470/default");
  EXPECT_EQ(found.differences[1].other, "tcp://c:20470/default");
}

TEST_F(CompareReplicas, ABlockIsMissing) {
  make(2);
  const auto copy = open_copy('a');
  ASSERT_TRUE(copy->free({block_of(kComparedAddress), 1}).ok());
  ASSERT_TRUE(copy->close().ok());
  const ReplicaComparison found = compare();
  ASSERT_EQ(found.differing, 1U);
  EXPECT_EQ(found.differences[0].bytes, 0U);
  EXPECT_EQ(found.differences[0].first, "tcp://b:20470/default");
  EXPECT_EQ(found.differences[0].other, "tcp://a:20470/default");
}

TEST_F(CompareReplicas, BlocksWithRowsMayDifferAfterACrash) {
  lets_go_ = false;
  make(2);
  const auto copy = open_copy('b');
  write(*copy, 9);
  ASSERT_TRUE(copy->close().ok());
  const ReplicaComparison found = compare();
  EXPECT_EQ(found.differing, 0U);
  EXPECT_EQ(found.passed_over, 2U);
  EXPECT_EQ(found.blocks, 2U);
}

// The others are compared.
TEST_F(CompareReplicas, OneInSyncThatIsNotThereIsNamed) {
  make(3);
  away_ = "tcp://b:20470/default";
  const ReplicaComparison found = compare();
  EXPECT_EQ(found.not_there, std::vector<std::string>{away_});
  EXPECT_EQ(found.blocks, 4U);
  EXPECT_EQ(found.differing, 0U);
  EXPECT_EQ(found.alone, 0U);
}

TEST_F(CompareReplicas, OneAloneIsComparedWithNone) {
  make(2);
  auto stored = *map_->get();
  stored.map.generation += 1;
  stored.map.places[0].replicas[1].state = ReplicaState::kStale;
  ASSERT_TRUE(map_->replace(stored.map, stored.version).ok());
  const ReplicaComparison found = compare();
  EXPECT_EQ(found.alone, 1U);
  EXPECT_TRUE(found.not_there.empty());
  EXPECT_EQ(found.blocks, 0U);
}

TEST_F(CompareReplicas, ItTakesTheTimeItIsToldAndStops) {
  make(2);
  const auto set = open(OpenMode::kReadOnly);
  ASSERT_NE(set, nullptr);
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(compare_replicas(*set, {16 * kBlockBytes, nullptr, nullptr}).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(240));
  EXPECT_EQ(compare_replicas(*set, {0, nullptr, [] { return true; }}).code(), EINTR);
  EXPECT_TRUE(set->close().ok());
}

}  // namespace
}  // namespace brickfs
