// SPDX-License-Identifier: Apache-2.0
// The RDMA client against a real device: odd transfers, registered and not, many threads, and what the device refuses.
#include "transport/verbs/verbs_brick.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/tcp_test_brick.h"
#include "tests/support/verbs_test_brick.h"
#include "transport/remote/call_channel.h"
#include "transport/verbs/connector.h"
#include "transport/verbs/greet.h"
#include "transport/verbs/queue_pair.h"

namespace brickfs::testing {
namespace {

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!verbs_address()) GTEST_SKIP() << "no RDMA device was named ($BRICKFS_RDMA_ADDRESS)";
  }
  void start(std::vector<VolumeSpec> volumes = {}) {
    BrickConfig config = memory_config(8);
    config.volumes = std::move(volumes);
    brick_ = std::make_unique<VerbsTestBrick>(std::move(config), std::vector{*verbs_address()});
  }
  std::unique_ptr<Brick> open(const OpenRequest& request) {
    auto client = brick_->connect();
    const auto opened = client->open(request, nullptr);
    EXPECT_EQ(opened.code(), 0);
    return client;
  }

  std::unique_ptr<VerbsTestBrick> brick_;
};

TEST_F(Verbs, RandomTransfersLeaveWhatAModelHas) {
  start();
  auto client = open(request_for(1));
  ASSERT_TRUE(client->alloc(blocks(0, 2)).ok());
  const auto handles = client->map(blocks(0, 2), Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random); };
  const uint64_t size = handles->front().blocks.count * kBlockBytes;
  std::vector<std::byte> model(size);
  std::vector<std::byte> memory = pattern(2 * kMiB, seed);
  const auto registered = client->register_memory(memory);
  ASSERT_TRUE(registered.ok());
  for (int round = 0; round < 150; ++round) {
    std::vector<LocalSlice> slices;
    uint64_t total = 0;
    uint64_t place = below(1000);
    const uint64_t count = 1 + below(limits::kSlicesPerTransfer);
    const uint64_t most = below(2) == 0 ? 300 : 40'000;
    for (uint64_t i = 0; i < count; ++i) {
      const auto length = static_cast<uint32_t>(1 + below(most));
      slices.push_back({&memory[place], length, below(8) == 0 ? 0 : registered->local_key()});
      place += length + below(100);
      total += length;
    }
    const uint64_t offset = below(size - total);
    const bool writes = below(2) == 0;
    Batch batch;
    batch.transfers.push_back({writes ? Direction::kWrite : Direction::kRead, handles->front(), offset, slices});
    client->submit(batch);
    ASSERT_TRUE(client->wait(batch).ok());
    uint64_t at = offset;
    for (const LocalSlice& slice : slices) {
      if (writes) std::copy_n(slice.data, slice.length_bytes, &model[at]);
      ASSERT_EQ(std::memcmp(slice.data, &model[at], slice.length_bytes), 0) << "round " << round;
      at += slice.length_bytes;
    }
  }
  EXPECT_EQ(read(*client, handles->front(), 0, size / 2),
            std::vector(model.begin(), model.begin() + static_cast<long>(size / 2)));
}

TEST_F(Verbs, CallbacksAndWaitersShareTheQueuePairs) {
  start();
  auto client = open(request_for(1));
  ASSERT_TRUE(client->alloc(blocks(0, 4)).ok());
  const auto handles = client->map(blocks(0, 4), Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  const Handle handle = handles->front();
  std::atomic<int> called = 0;
  constexpr int kRounds = 100;
  const auto count = [](Batch&, void* context) { static_cast<std::atomic<int>*>(context)->fetch_add(1); };
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::vector<std::byte> bytes = pattern(5000, number);
      const LocalSlice slice{bytes.data(), 5000, 0};
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t offset = number * 500'000 + static_cast<uint64_t>(round % 50) * 8192;
        Batch batch(number % 2 == 0 ? nullptr : +count, &called);
        batch.transfers.push_back({Direction::kWrite, handle, offset, {&slice, 1}});
        client->submit(batch);
        if (number % 2 == 0) {
          ASSERT_TRUE(client->wait(batch).ok());
        } else {
          ASSERT_TRUE(eventually([&] { return batch.complete(); }));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return called.load() == 2 * kRounds; }));
}

// So many bytes more may be locked for devices while this lives.
class LockedMemoryLimit {
 public:
  explicit LockedMemoryLimit(uint64_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &former_), 0);
    const rlim_t most = locked_bytes() + bytes;
    const rlimit limit{most, std::max(most, former_.rlim_max)};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  }
  ~LockedMemoryLimit() { ::setrlimit(RLIMIT_MEMLOCK, &former_); }
  LockedMemoryLimit(const LockedMemoryLimit&) = delete;
  LockedMemoryLimit& operator=(const LockedMemoryLimit&) = delete;

  static bool binds() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    return ::syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_IPC_LOCK & 1) == 0;
  }
  static uint64_t locked_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      uint64_t kib = 0;
      if (word == "VmPin:" && status >> kib) return kib * kKiB;
    }
    return 0;
  }

 private:
  rlimit former_{};
};

TEST_F(Verbs, MemoryThatOneDeviceCouldNotRegisterGoesByAllQueuePairs) {
  if (verbs_addresses().size() < 2) GTEST_SKIP() << "needs two RDMA devices";
  if (!LockedMemoryLimit::binds()) GTEST_SKIP() << "CAP_IPC_LOCK: this process may lock whatever it likes";
  constexpr uint64_t kMemory = 128 * kMiB;
  constexpr uint32_t kBytes = 256 * kKiB;
  brick_ = std::make_unique<VerbsTestBrick>(memory_config(8), verbs_addresses());
  auto client = brick_->connect();
  std::vector<std::byte> memory(kMemory);
  const auto registered = client->register_memory(memory);
  ASSERT_TRUE(registered.ok());
  const LockedMemoryLimit limit(kMemory * 7 / 4);  // and what else the session needs
  const uint64_t before = LockedMemoryLimit::locked_bytes();
  ASSERT_TRUE(client->open(request_for(1), nullptr).ok());
  const auto has_both = [&] { return client->stat()->transport.find("; ") != std::string::npos; };
  ASSERT_TRUE(eventually(has_both));
  const uint64_t locked = LockedMemoryLimit::locked_bytes() - before;
  ASSERT_TRUE(locked >= kMemory && locked < 2 * kMemory) << locked;
  ASSERT_TRUE(client->alloc(blocks(0)).ok());
  const Handle handle = client->map(blocks(0), Access::kReadWrite)->front();
  const std::vector<std::byte> written = pattern(kBytes, 1);
  std::ranges::copy(written, memory.begin());
  for (int round = 0; round < 4; ++round) {
    std::vector<LocalSlice> slices;
    for (size_t i = 0; i < 16; ++i) slices.push_back({&memory[i * kBytes], kBytes, registered->local_key()});
    Batch write;
    write.transfers.push_back({Direction::kWrite, handle, 0, {slices.data(), 1}});
    client->submit(write);
    ASSERT_TRUE(client->wait(write).ok());
    Batch reads;
    for (const LocalSlice& slice : slices) reads.transfers.push_back({Direction::kRead, handle, 0, {&slice, 1}});
    client->submit(reads);
    ASSERT_TRUE(client->wait(reads).ok());
    for (const LocalSlice& slice : slices) ASSERT_EQ(std::memcmp(slice.data, written.data(), kBytes), 0);
    ASSERT_TRUE(has_both()) << "a path was lost in round " << round;
    std::fill(memory.begin() + kBytes, memory.begin() + 16 * kBytes, std::byte{});
  }
}

TEST_F(Verbs, StatNamesDeviceAndGuard) {
  start();
  auto client = open(request_for(1));
  const auto stat = client->stat();
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->transport.rfind("rdma (", 0), 0u) << stat->transport;
}

TEST_F(Verbs, NobodyListensIsECONNREFUSED) {
  start();
  const uint16_t port = brick_->port();
  brick_.reset();
  EXPECT_EQ(make_verbs_brick({{*verbs_address(), port}}, {})->open(request_for(1), nullptr).code(), ECONNREFUSED);
}

TEST_F(Verbs, AWrongSecretIsEACCES) {
  brick_ = std::make_unique<VerbsTestBrick>(memory_config(4), std::vector{*verbs_address()}, Secret{"right"});
  EXPECT_EQ(brick_->connect(Secret{"wrong"})->open(request_for(1), nullptr).code(), EACCES);
  EXPECT_EQ(brick_->connect(Secret{})->open(request_for(1), nullptr).code(), EACCES);
  EXPECT_TRUE(brick_->connect(Secret{"right"})->open(request_for(1), nullptr).ok());
}

// A client without scruples: posts what it likes.
class RawClient {
 public:
  RawClient(const HostPort& address, const OpenRequest& request) : address_(address) {
    auto greeted = verbs::greet(address, soon());
    EXPECT_EQ(greeted.code(), 0);
    EXPECT_EQ(open_session(*greeted->channel, greeted->nonces, {}, request, nullptr, soon()).code(), 0);
    completions_ = *verbs::CompletionChannel::make(greeted->channel->id().id->verbs);
    calls_ = std::make_unique<CallChannel>(std::move(greeted->channel));
  }

  template <typename Call>
  typename Call::Answer call(const Call& call) {
    auto reply = calls_->call(++id_, call, std::chrono::seconds(10));
    EXPECT_EQ(reply.code(), 0);
    if (!reply.ok()) return {};
    EXPECT_EQ(reply->status, 0);
    auto answer = calls::decode_answer(call, reply->body);
    EXPECT_EQ(answer.code(), 0);
    return answer.ok() ? std::get<typename Call::Answer>(*answer) : typename Call::Answer{};
  }
  std::unique_ptr<verbs::QueuePair> add_queue_pair() {
    auto opened = verbs::open_queue_pair(address_, call(calls::QueuePair{}), memory_, completions_, soon());
    EXPECT_EQ(opened.code(), 0);
    events_.push_back(std::move(opened->events));
    return std::move(opened->pair);
  }
  struct QueuePairHandle {
    uint64_t address;
    calls::QueuePairKeys keys;
  };
  QueuePairHandle map(uint64_t block) {
    const auto mapped = call(calls::Map{blocks(block), Access::kReadWrite});
    EXPECT_EQ(mapped.keys.size(), 1u);
    return {mapped.handles.front().remote_address, mapped.keys.front()};
  }
  ibv_context* device() const { return completions_->get()->context; }
  void alloc(uint64_t block) { call(calls::Alloc{blocks(block)}); }
  void unmap(uint64_t block) { call(calls::Unmap{blocks(block)}); }

  // 0, or EACCES when the queue pair died of it.
  static int write(verbs::QueuePair& pair, uint64_t address, uint32_t key, std::byte value) {
    std::vector<std::byte> bytes(64, value);
    const LocalSlice slice{bytes.data(), 64, 0};
    const Transfer transfer{Direction::kWrite, {}, 0, {&slice, 1}};
    onesided::Mapping mapping;
    mapping.handle.remote_address = address;
    for (auto& at : mapping.keys) at.store(key);
    const onesided::Part part{nullptr, &transfer, &mapping, 0, 64, onesided::Part::Way::kStaged, 0};
    const auto posted = pair.post({&part, 1});
    EXPECT_TRUE(posted.ok());
    onesided::Parts done;
    EXPECT_TRUE(eventually([&] {
      pair.poll(done);
      return !done.empty() || pair.failed();
    }));
    if (!done.empty()) pair.finish(done.front(), 0);
    if (pair.failed()) {
      for (const auto& undone : pair.drain(done)) pair.finish(undone, ENOTCONN);
    }
    return pair.failed() ? EACCES : 0;
  }

 private:
  static verbs::Deadline soon() { return verbs::Clock::now() + std::chrono::seconds(60); }

  const HostPort address_;
  onesided::LocalMemory memory_;
  std::shared_ptr<verbs::CompletionChannel> completions_;
  std::vector<verbs::CmChannelPtr> events_;  // of the queue pairs
  std::unique_ptr<CallChannel> calls_;
  uint64_t id_ = 0;
};

TEST_F(Verbs, TheDeviceRefusesAKeyAfterUnmap) {
  start();
  RawClient client({*verbs_address(), brick_->port()}, request_for(1));
  client.alloc(0);
  auto pair = client.add_queue_pair();
  const auto old = client.map(0);
  const uint32_t key = old.keys[pair->number()];
  EXPECT_EQ(RawClient::write(*pair, old.address, key, std::byte{1}), 0);
  EXPECT_EQ(RawClient::write(*pair, old.address + kBlockBytes - 64, key, std::byte{2}), 0);
  client.unmap(0);
  EXPECT_EQ(RawClient::write(*pair, old.address, key, std::byte{3}), EACCES);
  pair.reset();
  auto heir = open(request_for(2, OpenMode::kExclusive, true));
  const auto handle = heir->map(blocks(0), Access::kRead);
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(read(*heir, handle->front(), 0, 64), std::vector(64, std::byte{1}));
  EXPECT_EQ(read(*heir, handle->front(), kBlockBytes - 64, 64), std::vector(64, std::byte{2}));
}

TEST_F(Verbs, TheDeviceRefusesWhatIsBeyondAHandle) {
  start();
  RawClient client({*verbs_address(), brick_->port()}, request_for(1));
  client.alloc(0);
  auto pair = client.add_queue_pair();
  const auto handle = client.map(0);
  EXPECT_EQ(RawClient::write(*pair, handle.address + kBlockBytes, handle.keys[pair->number()], std::byte{3}), EACCES);
}

TEST_F(Verbs, TheDeviceRefusesAnotherClientsKey) {
  start({{"other", std::nullopt}});
  auto owner = std::make_unique<RawClient>(HostPort{*verbs_address(), brick_->port()}, request_for(1));
  owner->alloc(0);
  auto pair = owner->add_queue_pair();
  const auto handle = owner->map(0);
  const uint32_t key = handle.keys[pair->number()];
  EXPECT_EQ(RawClient::write(*pair, handle.address, key, std::byte{1}), 0);
  OpenRequest elsewhere = request_for(2);
  elsewhere.volume = "other";
  RawClient thief({*verbs_address(), brick_->port()}, elsewhere);
  auto his = thief.add_queue_pair();
  EXPECT_EQ(RawClient::write(*his, handle.address, key, std::byte{7}), EACCES);
  his.reset();
  EXPECT_EQ(RawClient::write(*pair, handle.address + 64, key, std::byte{2}), 0);  // the owner's queue pair is as it was
  pair.reset();
  owner.reset();
  auto heir = open(request_for(1, OpenMode::kExclusive, true));
  const auto mapped = heir->map(blocks(0), Access::kRead);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(read(*heir, mapped->front(), 0, 64), std::vector(64, std::byte{1}));
}

TEST_F(Verbs, NothingOfAFencedClientLands) {
  start();
  RawClient client({*verbs_address(), brick_->port()}, request_for(1));
  client.alloc(0);
  auto pair = client.add_queue_pair();
  const auto handle = client.map(0);
  EXPECT_EQ(RawClient::write(*pair, handle.address, handle.keys[pair->number()], std::byte{1}), 0);
  auto thief = open(request_for(2, OpenMode::kExclusive, true));
  EXPECT_EQ(RawClient::write(*pair, handle.address, handle.keys[pair->number()], std::byte{9}), EACCES);
  const auto mapped = thief->map(blocks(0), Access::kRead);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(read(*thief, mapped->front(), 0, 64), std::vector(64, std::byte{1}));
}

TEST_F(Verbs, ATicketIsGoodOnce) {
  start();
  const HostPort address{*verbs_address(), brick_->port()};
  RawClient client(address, request_for(1));
  onesided::LocalMemory memory;
  const auto completions = *verbs::CompletionChannel::make(client.device());
  const auto offer = client.call(calls::QueuePair{});
  const auto enter = [&] {
    return verbs::open_queue_pair(address, offer, memory, completions, verbs::Clock::now() + std::chrono::seconds(10))
        .code();
  };
  EXPECT_EQ(enter(), 0);
  EXPECT_EQ(enter(), ECONNREFUSED);
}

}  // namespace
}  // namespace brickfs::testing
