// SPDX-License-Identifier: Apache-2.0
// EtcdMapStore on the etcd at BRICKFS_ETCD ("127.0.0.1:2379"): tests/etcd/store_test.sh starts one.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>

#include "transport/base/random.h"
#include "transport/etcd/etcd_map_store.h"
#include "transport/etcd/set_map_json.h"

namespace brickfs {
namespace {

SetMap new_map() {
  SetMap map;
  fill_random(map.set);
  map.generation = 1;
  map.wanted = 1;
  map.places.resize(1);
  MapReplica replica;
  fill_random(replica.id);
  replica.source = "tcp://a:20470/v";
  replica.domain = "a";
  replica.state = ReplicaState::kInSync;
  map.places[0].replicas = {replica};
  return map;
}

class RealEtcd : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(std::getenv("BRICKFS_ETCD"), nullptr);
    std::string why;
    const auto source = parse_source(
        "etcd://" + std::string(std::getenv("BRICKFS_ETCD")) + "/v" + std::to_string(random_id<uint32_t>()), &why);
    ASSERT_TRUE(source.ok()) << why;
    source_ = *source;
    store_ = open();
  }
  std::unique_ptr<EtcdMapStore> open() const {
    std::string why;
    auto store = EtcdMapStore::open(source_, {}, &why);
    EXPECT_TRUE(store.ok()) << why;
    return std::move(*store);
  }

  Source source_;
  std::unique_ptr<EtcdMapStore> store_;
};

TEST_F(RealEtcd, AMapIsMadeOnceAndReadBack) {
  EXPECT_EQ(store_->load().code(), ENOENT);
  EXPECT_EQ(store_->trouble(), "etcd knows no set " + source_.volume);
  const SetMap map = new_map();
  const auto version = store_->replace(map, 0);
  ASSERT_TRUE(version.ok()) << store_->trouble();
  const auto stored = open()->load();
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->map, map);
  EXPECT_EQ(stored->version, *version);
  EXPECT_EQ(store_->replace(map, 0).code(), EEXIST);
  EXPECT_EQ(store_->replace(new_map(), 0).code(), EEXIST);  // another set, and the same name
  EXPECT_EQ(store_->trouble(), "etcd knows a set " + source_.volume + " already");
  EXPECT_EQ(store_->load()->map, map);
}

TEST_F(RealEtcd, OnlyTheVersionThatIsThereIsReplaced) {
  SetMap map = new_map();
  const auto first = store_->replace(map, 0);
  ASSERT_TRUE(first.ok());
  map.generation = 2;
  const auto second = store_->replace(map, *first);
  ASSERT_TRUE(second.ok());
  EXPECT_GT(*second, *first);
  map.generation = 3;
  for (const uint64_t version : {*first, *second - 1, *second + 1})
    EXPECT_EQ(store_->replace(map, version).code(), EAGAIN);
  EXPECT_EQ(store_->load()->map.generation, 2u);
  EXPECT_EQ(store_->load()->version, *second);
}

TEST_F(RealEtcd, AMapThatIsNoneIsNotWritten) {
  SetMap map = new_map();
  map.places[0].replicas[0].state = ReplicaState::kStale;
  EXPECT_EQ(store_->replace(map, 0).code(), EUCLEAN);
  EXPECT_EQ(store_->load().code(), ENOENT);
}

TEST_F(RealEtcd, EachChangeOfManyWritersIsThere) {
  constexpr int kWriters = 4;
  constexpr uint64_t kChanges = 20;
  ASSERT_TRUE(store_->replace(new_map(), 0).ok());
  std::array<std::thread, kWriters> writers;
  for (std::thread& writer : writers) {
    writer = std::thread([this] {
      const auto store = open();
      for (uint64_t done = 0; done < kChanges;) {
        auto stored = store->load();
        ASSERT_TRUE(stored.ok()) << store->trouble();
        ++stored->map.generation;
        const auto replaced = store->replace(stored->map, stored->version);
        ASSERT_TRUE(replaced.ok() || replaced.code() == EAGAIN) << store->trouble();
        if (replaced.ok()) ++done;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(store_->load()->map.generation, 1 + kWriters * kChanges);
}

TEST_F(RealEtcd, TheLargestMapFits) {
  SetMap map = new_map();
  const MapReplica replica = map.places[0].replicas[0];
  map.places.resize(64);
  for (size_t i = 0; i < 64 * 8; ++i) {
    MapReplica& made = map.places[i / 8].replicas.emplace_back(replica);
    fill_random(made.id);
    made.source = "rdma://a-rather-long-name-of-a-host-" + std::to_string(i) +
                  ".example.org:20470,another-name-of-it-" + std::to_string(i) + ".example.org:20470/v";
  }
  map.places[0].replicas.erase(map.places[0].replicas.begin());
  EXPECT_TRUE(store_->replace(map, 0).ok()) << store_->trouble();
  EXPECT_EQ(store_->load()->map, map);
}

}  // namespace
}  // namespace brickfs
