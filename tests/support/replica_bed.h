// SPDX-License-Identifier: Apache-2.0
// Replicated sets over real bricks in this process, which go away, restart, and come back, and a map that can be away.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/memory_map_store.h"
#include "tests/support/restarting_brick.h"
#include "transport/membership/client_identity.h"
#include "transport/volume/volume_set.h"

namespace brickfs::testing {

class ReplicaBed : public ::testing::Test {
 protected:
  using Bytes = std::vector<std::byte>;
  using milliseconds = std::chrono::milliseconds;
  static Bytes filled(size_t length, int value) { return Bytes(length, static_cast<std::byte>(value)); }
  static constexpr BlockRange kData{BlockAddress{8 * kBlockBytes}, 4};
  static constexpr uint64_t kBlocks = 64;

  // Bricks "tcp://a:20470", "tcp://b:20470" ...; store_blocks 0: volatile ones.
  void start(size_t bricks, uint64_t replicas, uint64_t store_blocks) {
    std::vector<NamedBrick> named;
    for (size_t i = 0; i < bricks; ++i) {
      const std::string name = std::string("tcp://") + static_cast<char>('a' + i) + ":20470";
      named.push_back({name, ""});
      // A volume is a brick here: one of a place behind the first has another service.
      for (const std::string volume : {"default", "default.2"}) {
        bricks_[name + "/" + volume] = std::make_unique<RestartingBrick>(kBlocks, store_blocks, volume);
      }
    }
    std::string why;
    auto places = plan_places(named, replicas, "default", &why);
    ASSERT_TRUE(places.ok()) << why;
    SetMap map;
    map.set[0] = std::byte{1};
    map.generation = 1;
    map.wanted = replicas;
    map.places = std::move(*places);
    unsigned id = 0;
    for (MapPlace& place : map.places) {
      for (MapReplica& replica : place.replicas) {
        replica.id[7] = static_cast<std::byte>(++id);
        replica.state = ReplicaState::kInSync;
      }
    }
    ASSERT_TRUE(map_->replace(map, 0).ok());
  }
  RestartingBrick& brick(char name) { return *bricks_.at(std::string("tcp://") + name + ":20470/default"); }

  // Of a process of this machine that is not there: nobody has to wait for what such a client may still be reading.
  static ClientId ended(uint64_t number) {
    constexpr uint64_t kNoProcess = 0x3ffffe;  // is above the highest there can be
    return ClientId{(static_cast<uint64_t>(make_client_id()) & ~uint64_t{UINT32_MAX}) | kNoProcess << 10 | number};
  }
  Result<std::unique_ptr<VolumeSet>> try_open(uint64_t client = 7) {
    VolumeOptions options;
    options.open.client = clients_end_ ? ended(client) : ClientId{client};
    options.open.client_name = "test";
    options.soft = soft_;
    options.open.mode = mode_;
    options.open.steal = steal_;
    options.accept_older = accept_older_;
    auto store = std::make_unique<MemoryMapStore>(map_);
    store_ = store.get();
    if (at_change_) store->set_away_after(at_change_);
    const auto make = [this](const std::string& source, std::string*) -> Result<std::unique_ptr<Brick>> {
      ++tries_;
      if (own_faults_ != nullptr && source == "tcp://a:20470/default") return own_faults_->make_brick();
      return bricks_.at(source)->make_brick();
    };
    return VolumeSet::open(std::move(store), make, options, &refusal_);
  }
  std::unique_ptr<VolumeSet> open(uint64_t client = 7) {
    auto set = try_open(client);
    EXPECT_TRUE(set.ok()) << set.error().what() << ": " << refusal_.why;
    if (!set.ok()) return nullptr;
    if (mode_ == OpenMode::kExclusive) {
      EXPECT_TRUE(settle(**set).ok());
    }
    return std::move(*set);
  }
  // As a mount does; here no block refers to another.
  static Status settle(VolumeSet& set) {
    if (set.is_settled()) return {};
    return set.settle(TRY(set.list()), {}, {});
  }

  static Status write(VolumeSet& set, uint64_t address, const Bytes& bytes) {
    Bytes copy = bytes;
    const Piece piece{address, {{copy.data(), static_cast<uint32_t>(copy.size()), 0}}};
    return set.write(std::span(&piece, 1), Stage::kData);
  }
  static Result<Bytes> read(VolumeSet& set, uint64_t address, size_t length) {
    Bytes bytes(length);
    const Piece piece{address, {{bytes.data(), static_cast<uint32_t>(length), 0}}};
    TRY(set.read(std::span(&piece, 1)));
    return bytes;
  }
  // Two copies, and a client that crashes with 4 KiB written and not committed.
  void write_and_crash() {
    start(2, 2, 64);
    const auto set = open();
    ASSERT_NE(set, nullptr);
    ASSERT_TRUE(set->alloc(kData).ok());
    ASSERT_TRUE(set->commit().ok());
    ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 7)).ok());
  }
  // Threads that write to blocks, each to 4 KiB of its own in all of them, and read it back, until they are stopped.
  class Writers {
   public:
    static constexpr size_t kCount = 4;

    Writers(VolumeSet& set, BlockRange blocks) : blocks_(blocks) {
      for (size_t writer = 0; writer < kCount; ++writer)
        threads_.emplace_back([this, &set, writer] { run(set, writer); });
    }
    ~Writers() { stop(); }
    void stop() {
      stopping_ = true;
      for (std::thread& thread : threads_) thread.join();
      threads_.clear();
    }
    BlockRange blocks() const { return blocks_; }
    int last(size_t writer) const { return last_[writer]; }  // that it has written everywhere, once it is stopped

   private:
    void run(VolumeSet& set, size_t writer) {
      for (int round = 1; !stopping_; ++round) {
        const Bytes bytes = filled(4096, round % 250);
        for (uint64_t block = 0; block < blocks_.count; ++block) {
          const uint64_t address = raw(block_after(blocks_.start, block)) + writer * 4096;
          ASSERT_TRUE(write(set, address, bytes).ok());
          ASSERT_EQ(*read(set, address, 4096), bytes);
        }
        last_[writer] = round % 250;
      }
    }

    const BlockRange blocks_;
    std::atomic<bool> stopping_{false};
    std::array<std::atomic<int>, kCount> last_{};
    std::vector<std::thread> threads_;
  };
  // Each of these bricks has what they wrote last.
  void expect_written(const Writers& writers, const std::vector<char>& bricks) {
    for (uint64_t block = 0; block < writers.blocks().count; ++block) {
      const uint64_t address = raw(block_after(writers.blocks().start, block));
      const Bytes first = on_brick(bricks.front(), address, Writers::kCount * 4096);
      for (size_t writer = 0; writer < Writers::kCount; ++writer) {
        EXPECT_EQ(first[writer * 4096], static_cast<std::byte>(writers.last(writer))) << block;
      }
      for (const char name : bricks) EXPECT_EQ(on_brick(name, address, Writers::kCount * 4096), first) << name;
    }
  }
  // Past whoever has the volume, which nobody's client takes from him.
  static void move_past_holder(Brick& session, uint64_t address, Bytes& bytes, Direction direction) {
    OpenRequest request;
    request.client = ClientId{0x999};
    request.steal = true;
    ASSERT_TRUE(session.open(request, nullptr).ok());
    const Access access = direction == Direction::kRead ? Access::kRead : Access::kReadWrite;
    const auto handle = session.map({block_of(address), 1}, access);
    ASSERT_TRUE(handle.ok());
    const std::vector<LocalSlice> slices{{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}};
    Batch batch;
    batch.transfers.push_back(
        Transfer{.direction = direction, .handle = handle->front(), .offset = address % kBlockBytes, .local = slices});
    session.submit(batch);
    ASSERT_TRUE(session.wait(batch).ok());
    ASSERT_TRUE(session.close().ok());
  }
  static void write_past_holder(Brick& session, uint64_t address, Bytes bytes) {
    move_past_holder(session, address, bytes, Direction::kWrite);
  }
  Bytes on_brick(char name, uint64_t address, size_t length) {
    Bytes bytes(length);
    move_past_holder(*brick(name).make_brick(), address, bytes, Direction::kRead);
    return bytes;
  }

  MapReplica entry(size_t index, size_t place = 0) { return map_->get()->map.places[place].replicas[index]; }
  static bool comes_true(const std::function<bool()>& condition, milliseconds within = milliseconds(60'000)) {
    const auto until = std::chrono::steady_clock::now() + within;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }
  bool is_in_state(size_t index, ReplicaState state) {
    return comes_true([&] { return entry(index).state == state; });
  }
  void go_away(char name) {
    brick(name).faults().refuse(true);
    brick(name).faults().lose();
  }
  void wipe(char name, uint64_t store_blocks) {
    bricks_.at(std::string("tcp://") + name + ":20470/default") =
        std::make_unique<RestartingBrick>(kBlocks, store_blocks);
  }
  void come_back(char name) { brick(name).faults().refuse(false); }

  std::shared_ptr<MemoryMap> map_ = std::make_shared<MemoryMap>();
  std::map<std::string, std::unique_ptr<RestartingBrick>> bricks_;
  MemoryMapStore* store_ = nullptr;
  std::function<bool(const SetMap&)> at_change_;  // of the next client's store: set_away_after()
  std::shared_ptr<BrickFaults> own_faults_;       // of the next client alone, on its way to a. Null: they are a's
  std::optional<milliseconds> soft_;
  OpenMode mode_ = OpenMode::kExclusive;
  bool steal_ = false;
  bool clients_end_ = false;  // those that crash are known to have
  bool accept_older_ = false;
  SetRefusal refusal_;
  std::atomic<size_t> tries_{0};  // of all bricks
};

}  // namespace brickfs::testing
