// SPDX-License-Identifier: Apache-2.0
// VolumeClient over a real brick in this process whose connection fails and which restarts.
#include "transport/volume/volume_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/support/volume_io.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::blocks;
using testing::Bytes;
using testing::open_volume;
using testing::read;
using testing::remote_options;
using testing::write;

Bytes filled(size_t length, int seed) {
  Bytes bytes(length);
  for (size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>((i / 7 + static_cast<size_t>(seed) * 31) & 0xff);
  return bytes;
}

TEST(VolumeClient, WritesAndReadsAcrossBlocksAndSlices) {
  RestartingBrick brick(16, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 6)).ok());
  // 100 slices of odd sizes over four blocks, and a second piece elsewhere.
  Bytes data = filled(5 * kMiB + 77, 1);
  Piece scattered{2 * kMiB + 12345, {}};
  for (size_t i = 0, at = 0; i < 100; ++i) {
    const size_t length = i == 99 ? data.size() - at : data.size() / 100 + i % 3;
    scattered.local.push_back({data.data() + at, static_cast<uint32_t>(length), 0});
    at += length;
  }
  Bytes other = filled(1000, 2);
  const std::array<Piece, 3> pieces{scattered, Piece{0, {}}, Piece{12 * kMiB, {{other.data(), 1000, 0}}}};
  ASSERT_TRUE(volume->write(pieces, Stage::kData).ok());
  EXPECT_EQ(*read(*volume, 2 * kMiB + 12345, data.size()), data);
  EXPECT_EQ(*read(*volume, 12 * kMiB, 1000), other);
  EXPECT_EQ(brick.faults().calls(BrickCall::kTransfer), 3u) << "the pieces of a call go out together";
}

TEST(VolumeClient, KnownBlocksCostNoControlCall) {
  RestartingBrick brick(16, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 8)).ok());
  volume->map_ahead(blocks(1, 8));
  const uint64_t maps = brick.faults().calls(BrickCall::kMap);
  EXPECT_EQ(maps, 1u);
  for (int i = 0; i < 50; ++i) {
    Bytes data = filled(4096, i);
    ASSERT_TRUE(write(*volume, 2 * kMiB + static_cast<uint64_t>(i) * 300'000, data).ok());
    EXPECT_EQ(*read(*volume, 2 * kMiB + static_cast<uint64_t>(i) * 300'000, 4096), data);
  }
  EXPECT_EQ(brick.faults().calls(BrickCall::kMap), maps);
}

TEST(VolumeClient, TellsAllocationErrors) {
  RestartingBrick brick(4, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 2)).ok());
  EXPECT_EQ(volume->alloc(blocks(2, 2)).code(), EEXIST);
  EXPECT_EQ(volume->alloc(blocks(10, 100)).code(), ENOSPC);
  EXPECT_EQ(volume->free(blocks(2, 2)).code(), ENOENT);
  EXPECT_EQ(*volume->list(), std::vector{blocks(1, 2)});
  ASSERT_TRUE(volume->free(blocks(1, 1)).ok());
  EXPECT_EQ(*volume->list(), std::vector{blocks(2, 1)});
}

// A durable brick of any size, which has the names of its blocks alone.
class NamesOfBlocks final : public Brick {
 public:
  explicit NamesOfBlocks(BlockSet& blocks) : blocks_(blocks) {}

  Result<Session> open(const OpenRequest&, Holder*) override {
    Session session;
    session.epoch = Epoch{1};
    session.boot = BootId{1};
    session.durability = Durability::kDurable;
    session.capacity_blocks = session.memory_blocks = uint64_t{1} << 20;
    return session;
  }
  Status close() override { return {}; }
  void abandon() override {}
  Result<calls::Answer> call(const calls::Request& request) override {
    return std::visit([&](const auto& asked) { return calls::to_answer(carry_out(asked)); }, request);
  }
  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(); }
  void submit(Batch& batch) override {
    batch.begin(batch.transfers.size() + 1);
    for (const Transfer& transfer : batch.transfers) batch.finish_one(has(transfer.handle.blocks).code());
    batch.finish_one(0);
  }
  Status wait(Batch& batch) override { return batch.status(); }
  void set_on_lost(std::function<void(Error)>) override {}

 private:
  Status has(BlockRange range) const { return blocks_.contains(range) ? Status() : Error(ENOENT, "no such block"); }
  Status carry_out(const calls::Alloc& call) {
    blocks_.insert(call.blocks);
    return {};
  }
  Status carry_out(const calls::Free& call) {
    TRY(has(call.blocks));
    blocks_.erase(call.blocks);
    return {};
  }
  Result<calls::Mapped> carry_out(const calls::Map& call) {
    TRY(has(call.blocks));
    return calls::Mapped{{Handle{call.blocks, call.access, raw(call.blocks.start), 1}}, {}};
  }
  Status carry_out(const calls::Unmap&) { return {}; }
  Result<ListPage> carry_out(const calls::List&) { return ListPage{blocks_.ranges(), {}}; }
  Status carry_out(const calls::Commit& call) {
    for (const CommitRange& range : call.ranges) TRY(has({block_of(range.address), 1}));
    return {};
  }
  Result<BrickStat> carry_out(const calls::Stat&) { return BrickStat(); }
  Status carry_out(const auto&) { return Error(EINVAL, "a call of the two ends of a session"); }

  BlockSet& blocks_;
};

// Among it what a commit would write to, which goes first, and blocks of one handle that go in two later calls.
TEST(VolumeClient, GivesAllBackWithoutACommit) {
  BlockSet there;
  VolumeOptions options = remote_options();
  VolumeClient* self = nullptr;
  int commits = 0;
  options.before_commit = [&](const Interruption* by) {
    ++commits;
    Bytes record(4096);
    return self->write_with_commit({0, {{record.data(), 4096, 0}}}, Stage::kJournal, by);
  };
  auto volume = VolumeClient::open(std::make_unique<NamesOfBlocks>(there), std::move(options), nullptr);
  ASSERT_TRUE(volume.ok());
  self = volume->get();
  constexpr uint64_t kTwoCalls = 2 * limits::kBlocksPerCall;
  ASSERT_TRUE(self->alloc(blocks(0, kTwoCalls + 2)).ok());
  ASSERT_TRUE(write(*self, kTwoCalls * kBlockBytes - 4096, Bytes(8192)).ok());
  EXPECT_TRUE(self->free_all().ok());
  EXPECT_TRUE(there.empty()) << there.count();
  EXPECT_EQ(commits, 0);
  EXPECT_EQ(self->uncommitted_bytes(), 0u);
}

TEST(VolumeClient, GoesOnAfterALostSession) {
  RestartingBrick brick(8, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 2)).ok());
  Bytes data = filled(3 * kMiB, 3);
  ASSERT_TRUE(write(*volume, 2 * kMiB, data).ok());
  brick.faults().lose();
  EXPECT_EQ(*read(*volume, 2 * kMiB, data.size()), data);
  EXPECT_EQ(brick.faults().sessions(), 2u);
  EXPECT_EQ(volume->link_state().kind, LinkState::Kind::kConnected);
}

// Each call of a session lost before and after it is carried out: its effect happens exactly once.
TEST(VolumeClient, CallsHappenOnceWhereverTheSessionIsLost) {
  for (const auto when : {BrickFaults::When::kBefore, BrickFaults::When::kAfter}) {
    for (uint64_t nth = 1; nth <= 8; ++nth) {
      SCOPED_TRACE(nth);
      RestartingBrick brick(16, 32);
      auto volume = open_volume(brick);
      brick.faults().lose_at(nth, when);
      ASSERT_TRUE(volume->alloc(blocks(1, 4)).ok());
      Bytes data = filled(5 * kMiB, static_cast<int>(nth));
      ASSERT_TRUE(write(*volume, 2 * kMiB, data).ok());
      ASSERT_TRUE(volume->commit().ok());
      ASSERT_TRUE(volume->free(blocks(4, 1)).ok());
      EXPECT_EQ(*read(*volume, 2 * kMiB, data.size()), data);
      ASSERT_TRUE(volume->alloc(blocks(4, 1)).ok());
      EXPECT_EQ(*volume->list(), std::vector{blocks(1, 4)});
      EXPECT_EQ(*read(*volume, 8 * kMiB, 4096), Bytes(4096));
      EXPECT_EQ(volume->alloc(blocks(4, 1)).code(), EEXIST);
    }
  }
}

TEST(VolumeClient, SoftMountsGiveUpAndComeBack) {
  RestartingBrick brick(8, 0);
  VolumeOptions options = remote_options();
  options.soft = milliseconds(150);
  auto volume = open_volume(brick, options);
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  brick.faults().refuse(true);
  brick.faults().lose();
  const auto before = steady_clock::now();
  EXPECT_EQ(read(*volume, 2 * kMiB, 10).code(), EIO);
  EXPECT_GE(steady_clock::now() - before, milliseconds(150));
  EXPECT_EQ(volume->link_state().kind, LinkState::Kind::kWaiting);
  brick.faults().refuse(false);
  // The next attempt may be further off than an operation's patience.
  while (volume->link_state().kind == LinkState::Kind::kWaiting) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(read(*volume, 2 * kMiB, 10).ok()) << "once it is back, it works";
}

TEST(VolumeClient, CountsItsCalls) {
  RestartingBrick brick(8, 0);
  VolumeOptions options = remote_options();
  options.soft = milliseconds(150);
  auto volume = open_volume(brick, options);
  const VolumeCounters& counters = volume->counters();
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  EXPECT_EQ(counters.counts(VolumeCall::kAlloc).count(), 1u);
  ASSERT_TRUE(write(*volume, 2 * kMiB, filled(5000, 1)).ok());
  ASSERT_TRUE(read(*volume, 2 * kMiB, 100).ok());
  ASSERT_TRUE(volume->commit().ok());
  EXPECT_EQ(counters.counts(VolumeCall::kWrite).bytes, 5000u);
  EXPECT_EQ(counters.counts(VolumeCall::kRead).bytes, 100u);
  EXPECT_EQ(counters.counts(VolumeCall::kCommit).count(), 1u);
  EXPECT_EQ(counters.counts(VolumeCall::kWait).count(), 0u);
  brick.faults().refuse(true);
  brick.faults().lose();
  EXPECT_EQ(read(*volume, 2 * kMiB, 10).code(), EIO);
  const LatencyCounts reads = counters.counts(VolumeCall::kRead);
  EXPECT_EQ(reads.count(), 2u);
  EXPECT_EQ(reads.failures, 1u);
  EXPECT_EQ(reads.bytes, 100u) << "what failed has moved nothing";
  EXPECT_GE(counters.counts(VolumeCall::kWait).nanoseconds, 150'000'000u);
}

TEST(VolumeClient, HardMountsWait) {
  RestartingBrick brick(8, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  brick.faults().refuse(true);
  brick.faults().lose();
  std::atomic<bool> done = false;
  std::thread reader([&] {
    EXPECT_TRUE(read(*volume, 2 * kMiB, 10).ok());
    done = true;
  });
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(done);
  brick.faults().refuse(false);
  reader.join();
}

TEST(VolumeClient, AnOutageThatIsGivenUpFailsForAllUntilTheBrickIsBack) {
  RestartingBrick brick(8, 8);
  auto volume = open_volume(brick);  // hard
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  Bytes data = filled(4096, 1);
  ASSERT_TRUE(write(*volume, 2 * kMiB, data).ok());
  EXPECT_GT(volume->uncommitted_bytes(), 0u);
  volume->give_up_outage();
  EXPECT_TRUE(read(*volume, 2 * kMiB, 10).ok()) << "there is none";
  brick.faults().refuse(true);
  brick.faults().lose();
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) waiting.emplace_back([&] { EXPECT_EQ(read(*volume, 2 * kMiB, 10).code(), EIO); });
  waiting.emplace_back([&] { EXPECT_EQ(volume->commit().code(), EIO); });
  while (volume->link_state().kind == LinkState::Kind::kConnected) std::this_thread::sleep_for(milliseconds(5));
  std::this_thread::sleep_for(milliseconds(100));
  volume->give_up_outage();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(read(*volume, 2 * kMiB, 10).code(), EIO) << "who comes later does not wait, either";
  brick.faults().refuse(false);
  while (volume->link_state().kind == LinkState::Kind::kWaiting) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(*read(*volume, 2 * kMiB, data.size()), data);
  EXPECT_TRUE(volume->commit().ok());
  EXPECT_EQ(volume->uncommitted_bytes(), 0u);
  brick.faults().refuse(true);
  brick.faults().lose();
  std::atomic<bool> done = false;
  std::thread reader([&] {
    EXPECT_TRUE(read(*volume, 2 * kMiB, 10).ok());
    done = true;
  });
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_FALSE(done) << "the next outage is another one";
  brick.faults().refuse(false);
  reader.join();
}

TEST(VolumeClient, TryingDoesNotWaitForTheBrick) {
  RestartingBrick brick(8, 8);
  auto volume = open_volume(brick);  // hard
  ASSERT_TRUE(volume->alloc(blocks(1, 2)).ok());
  Bytes from = filled(5000, 1), to(5000);
  const uint64_t address = 2 * kBlockBytes - 1000;  // in two blocks
  const Piece write_piece{address, {{from.data(), 5000, 0}}}, read_piece{address, {{to.data(), 5000, 0}}};
  ASSERT_TRUE(volume->try_write(std::span(&write_piece, 1)).ok());
  ASSERT_TRUE(volume->try_read(std::span(&read_piece, 1)).ok());
  EXPECT_EQ(to, from);
  brick.faults().refuse(true);
  brick.restart();
  EXPECT_FALSE(volume->try_read(std::span(&read_piece, 1)).ok());
  EXPECT_FALSE(volume->try_write(std::span(&write_piece, 1)).ok());
  brick.faults().refuse(false);
  to.assign(5000, std::byte{0});
  ASSERT_TRUE(volume->read(std::span(&read_piece, 1)).ok());
  EXPECT_EQ(to, from) << "a write that was tried and done is replayed as any other";
}

TEST(VolumeClient, TryingDoesNotWaitForRoom) {
  RestartingBrick brick(8, 8);
  VolumeOptions options = remote_options();
  options.replay_bytes = 100'000;
  auto volume = open_volume(brick, options);
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  Bytes from = filled(60'000, 1);
  const Piece piece{kBlockBytes, {{from.data(), 60'000, 0}}};
  ASSERT_TRUE(volume->try_write(std::span(&piece, 1)).ok());
  EXPECT_EQ(volume->try_write(std::span(&piece, 1)).code(), EAGAIN);
  ASSERT_TRUE(volume->commit().ok());
  EXPECT_TRUE(volume->try_write(std::span(&piece, 1)).ok());
}

// What is mapped for writing a new holder has to compare with the store.
TEST(VolumeClient, FewBlocksStayMappedForWriting) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "6 GB, with what ThreadSanitizer notes of each byte; and one thread alone works here";
#endif
  constexpr uint64_t kBlocks = limits::kWritableBlocks + 64;
  for (const bool tries : {false, true}) {
    RestartingBrick brick(kBlocks, kBlocks);
    auto volume = open_volume(brick);
    ASSERT_TRUE(volume->alloc(blocks(0, kBlocks)).ok());
    Bytes from = filled(512, 1);
    for (uint64_t block = 0; block < kBlocks; ++block) {
      const Piece piece{block * kBlockBytes, {{from.data(), 512, 0}}};
      ASSERT_TRUE(
          (tries ? volume->try_write(std::span(&piece, 1)) : volume->write(std::span(&piece, 1), Stage::kData)).ok());
      if (block % 32 == 0) {
        ASSERT_TRUE(volume->commit().ok());
      }
    }
    EXPECT_LE(volume->stat()->volume_mapped_blocks, limits::kWritableBlocks + 32);
  }
}

TEST(VolumeClient, InterruptEndsWaiting) {
  RestartingBrick brick(8, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  brick.faults().refuse(true);
  brick.faults().lose();
  std::thread reader([&] { EXPECT_EQ(read(*volume, 2 * kMiB, 10).code(), ECANCELED); });
  std::thread committer([&] { EXPECT_EQ(volume->commit().code(), ECANCELED); });
  std::this_thread::sleep_for(milliseconds(100));
  volume->interrupt();
  reader.join();
  committer.join();
  EXPECT_EQ(volume->stat().code(), ECANCELED);
  volume->interrupt();
  static_cast<void>(volume->close());
}

TEST(VolumeClient, ATakeOverIsFinal) {
  RestartingBrick brick(8, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  ASSERT_TRUE(read(*volume, 2 * kMiB, 10).ok());
  EXPECT_TRUE(volume->final_error().ok());
  auto taker = make_embedded_brick(brick.service());
  OpenRequest request;
  request.client = ClientId{8};
  request.client_name = "taker";
  request.steal = true;
  ASSERT_TRUE(taker->open(request, nullptr).ok());
  EXPECT_EQ(read(*volume, 2 * kMiB, 10).code(), ESTALE);
  EXPECT_EQ(volume->final_error().code(), ESTALE);
  EXPECT_EQ(volume->commit().code(), ESTALE);
  EXPECT_EQ(volume->link_state().kind, LinkState::Kind::kFailed);
}

TEST(VolumeClient, ARefusedHandleIsReplaced) {
  RestartingBrick brick(8, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  Bytes data = filled(4096, 1);
  brick.faults().answer(BrickCall::kTransfer, EACCES);
  ASSERT_TRUE(write(*volume, 2 * kMiB, data).ok());
  EXPECT_EQ(*read(*volume, 2 * kMiB, 4096), data);
  EXPECT_EQ(brick.faults().sessions(), 2u);
}

TEST(VolumeClient, ReadersCannotWrite) {
  RestartingBrick brick(8, 0);
  {
    auto volume = open_volume(brick);
    ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
    ASSERT_TRUE(volume->close().ok());
  }
  VolumeOptions options = remote_options();
  options.open.mode = OpenMode::kReadOnly;
  auto volume = open_volume(brick, options);
  EXPECT_TRUE(read(*volume, 2 * kMiB, 10).ok());
  Bytes data(10);
  EXPECT_EQ(write(*volume, 2 * kMiB, data).code(), EACCES);
  EXPECT_EQ(volume->alloc(blocks(2, 1)).code(), EACCES);
  EXPECT_EQ(brick.faults().sessions(), 2u) << "an answer, not a reason to reconnect";
}

VolumeOptions following() {
  VolumeOptions options = remote_options();
  options.open.client = ClientId{8};
  options.open.mode = OpenMode::kFollow;
  return options;
}

TEST(VolumeClient, AFollowerMapsAgainWhatWasTakenFromIt) {
  RestartingBrick brick(8, 0);
  auto volume = VolumeClient::open(make_embedded_brick(brick.service()), remote_options(), nullptr);
  ASSERT_TRUE(volume.ok());
  ASSERT_TRUE((*volume)->alloc(blocks(1, 2)).ok());
  const Bytes data = filled(4096, 1);
  ASSERT_TRUE(write(**volume, 4 * kMiB, data).ok());
  auto follower = open_volume(brick, following());
  ASSERT_TRUE(read(*follower, 2 * kMiB, 4 * kMiB).ok()) << "one handle for both blocks";
  ASSERT_TRUE((*volume)->free(blocks(1, 1)).ok());
  EXPECT_EQ(*read(*follower, 4 * kMiB, 4096), data);
  EXPECT_EQ(read(*follower, 2 * kMiB, 4096).code(), ENOENT);
  EXPECT_EQ(brick.faults().sessions(), 1u) << "an answer, not a reason to reconnect";
}

TEST(VolumeClient, AFollowerKeepsAPartOfTheBricksMemory) {
  RestartingBrick brick(32, 64);
  auto volume = VolumeClient::open(make_embedded_brick(brick.service()), remote_options(), nullptr);
  ASSERT_TRUE(volume.ok());
  ASSERT_TRUE((*volume)->alloc(blocks(0, 64)).ok());
  auto follower = open_volume(brick, following());
  for (uint64_t number = 0; number < 64; ++number) {
    ASSERT_TRUE(read(*follower, number * kBlockBytes, 4096).ok());
    EXPECT_LE(follower->stat()->volume_mapped_blocks, 5u);
  }
}

TEST(VolumeClient, ClosedMeansClosed) {
  RestartingBrick brick(8, 0);
  auto volume = open_volume(brick);
  EXPECT_TRUE(volume->close().ok());
  EXPECT_EQ(volume->list().code(), ECANCELED);
  EXPECT_TRUE(VolumeClient::open(brick.make_brick(), remote_options(), nullptr).ok());
}

TEST(VolumeClient, AVolatileBrickThatRestartsHasLostItsData) {
  RestartingBrick brick(8, 0);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(1, 1)).ok());
  brick.restart();
  EXPECT_EQ(read(*volume, 2 * kMiB, 10).code(), EIO);
  EXPECT_EQ(volume->alloc(blocks(2, 1)).code(), EIO) << "and that is final";
  EXPECT_EQ(volume->link_state().kind, LinkState::Kind::kFailed);
}

TEST(VolumeClient, MoreBlocksThanMemory) {
  for (const uint64_t store_blocks : {40, 0}) {
    RestartingBrick brick(store_blocks == 0 ? 8 : 4, store_blocks);
    auto volume = open_volume(brick);
    const uint64_t count = store_blocks == 0 ? 8 : 30;
    ASSERT_TRUE(volume->alloc(blocks(1, count)).ok());
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < count; ++i) {
          Bytes data = filled(64 * kKiB, t * 1000 + static_cast<int>(i));
          const uint64_t address = (1 + i) * kBlockBytes + static_cast<uint64_t>(t) * 64 * kKiB;
          ASSERT_TRUE(write(*volume, address, data).ok());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // One call that wants more than there is.
    ASSERT_TRUE(read(*volume, kBlockBytes, 7 * kBlockBytes).ok());
    for (int t = 0; t < 3; ++t) {
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t address = (1 + i) * kBlockBytes + static_cast<uint64_t>(t) * 64 * kKiB;
        ASSERT_EQ(*read(*volume, address, 64 * kKiB), filled(64 * kKiB, t * 1000 + static_cast<int>(i)));
      }
    }
  }
}

}  // namespace
}  // namespace brickfs
