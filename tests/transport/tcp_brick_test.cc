// SPDX-License-Identifier: Apache-2.0
// What is the tcp client's own, beside the contract: connections shared by threads, long streams both ways, peers that
// are silent, foreign or gone.
#include "transport/tcp/tcp_brick.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <set>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/reserved_port.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/brick/limits.h"
#include "transport/tcp/link.h"
#include "transport/tcp/socket.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::alloc_and_map;
using testing::eventually;
using testing::memory_config;
using testing::pattern;
using testing::request_for;
using testing::takes_less_than;
using testing::TcpTestBrick;
using testing::transfer;

struct OpenClient {
  TcpTestBrick server;
  std::unique_ptr<Brick> brick;
  std::vector<Handle> handles;  // one for each block

  explicit OpenClient(uint64_t blocks) : server(memory_config(blocks)), brick(server.connect()) {
    EXPECT_EQ(brick->open(request_for(1), nullptr).code(), 0);
    handles = alloc_and_map(*brick, 0, blocks);
  }
};

// Who began it has not noticed that it is complete, and finds a session with fewer connections.
TEST(TcpLink, ABatchOfAFormerSessionIsPassedOver) {
  TcpTestBrick server(memory_config(1));
  const auto link = tcp::Link::open({"127.0.0.1", server.port()}, {}, request_for(1), nullptr, [](Error) {});
  ASSERT_EQ(link.code(), 0);
  Batch batch;
  batch.begin(1);
  batch.add_route(5);
  batch.finish_one(EIO);
  (*link)->wait(batch);
  EXPECT_EQ(batch.status().code(), EIO);
}

TEST(TcpBrick, MovesBytesInEveryShape) {
  OpenClient client(1);
  const auto bytes = pattern(kBlockBytes, 1);
  for (const size_t length : {1ul, 511ul, 4096ul, 65'537ul, size_t{kBlockBytes}}) {
    for (const size_t slices : {1ul, 2ul, limits::kSlicesPerTransfer}) {
      auto source = bytes;
      std::vector<std::byte> target(length);
      std::vector<LocalSlice> from, to;
      for (size_t i = 0, at = 0; i < slices; ++i) {
        const size_t end = i + 1 == slices ? length : length * (i + 1) / slices;
        from.push_back({source.data() + at, static_cast<uint32_t>(end - at), 0});
        to.push_back({target.data() + at, static_cast<uint32_t>(end - at), 0});
        at = end;
      }
      Batch write, read;
      write.transfers.push_back({Direction::kWrite, client.handles[0], kBlockBytes - length, from});
      read.transfers.push_back({Direction::kRead, client.handles[0], kBlockBytes - length, to});
      client.brick->submit(write);
      ASSERT_TRUE(client.brick->wait(write).ok());
      client.brick->submit(read);
      ASSERT_TRUE(client.brick->wait(read).ok());
      ASSERT_TRUE(std::equal(target.begin(), target.end(), bytes.begin()))
          << length << " bytes in " << slices << " slices";
    }
  }
}

TEST(TcpBrick, ThreadsShareTheConnections) {
  constexpr uint64_t kThreads = 8;
  OpenClient client(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&client, t] {
      std::mt19937_64 random(t);
      std::vector<std::byte> model(kBlockBytes);
      for (int round = 0; round < 300; ++round) {
        const size_t length = 1 + random() % (round % 8 == 0 ? 300'000 : 5'000);
        const size_t offset = random() % (kBlockBytes - length);
        const std::span<std::byte> part = std::span(model).subspan(offset, length);
        for (std::byte& byte : part) byte = static_cast<std::byte>(random());
        ASSERT_TRUE(transfer(*client.brick, Direction::kWrite, client.handles[t], offset, part).ok());
        std::vector<std::byte> got(length);
        ASSERT_TRUE(transfer(*client.brick, Direction::kRead, client.handles[t], offset, got).ok());
        ASSERT_TRUE(std::equal(got.begin(), got.end(), part.begin()));
      }
      std::vector<std::byte> all(kBlockBytes);
      ASSERT_TRUE(transfer(*client.brick, Direction::kRead, client.handles[t], 0, all).ok());
      ASSERT_EQ(all, model);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// This process's ends of connections to a port.
std::set<int> sockets_to(uint16_t port) {
  std::set<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && ntohs(peer.sin_port) == port)
      found.insert(fd);
  }
  return found;
}

// Those for calls and for commits, and one for transfers; more when transfers meet.
TEST(TcpBrick, ConnectionsComeAsTransfersMeet) {
  OpenClient client(4);
  const auto move = [&client](const Handle& handle) {
    std::vector<std::byte> bytes(kBlockBytes);
    return transfer(*client.brick, Direction::kWrite, handle, 0, bytes).ok();
  };
  std::vector<std::byte> few(4096);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(transfer(*client.brick, Direction::kRead, client.handles[0], 0, few).ok());
  }
  EXPECT_EQ(sockets_to(client.server.port()).size(), 3u);
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (const Handle& handle : client.handles) {
    threads.emplace_back([&move, &enough, handle] {
      while (!enough) ASSERT_TRUE(move(handle));
    });
  }
  EXPECT_TRUE(eventually([&] { return sockets_to(client.server.port()).size() >= 5; }, 60s));
  enough = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(sockets_to(client.server.port()).size(), 14u);
}

// Far more than the sockets hold goes both ways at once: neither end may wait for the other to read first.
TEST(TcpBrick, LongStreamsBothWaysDoNotBlockEachOther) {
  constexpr size_t kPairs = 12;
  OpenClient client(1 + kPairs);
  std::vector<std::byte> out = pattern(kBlockBytes, 3);
  const LocalSlice out_slice{out.data(), kBlockBytes, 0};
  for (const bool with_callback : {false, true}) {
    std::vector<std::vector<std::byte>> in(kPairs, std::vector<std::byte>(kBlockBytes));
    std::vector<LocalSlice> in_slices;
    for (auto& buffer : in) in_slices.push_back({buffer.data(), kBlockBytes, 0});
    std::atomic<bool> done{false};
    Batch waited;
    Batch called([](Batch&, void* context) { static_cast<std::atomic<bool>*>(context)->store(true); }, &done);
    Batch& batch = with_callback ? called : waited;
    for (size_t i = 0; i < kPairs; ++i) {
      batch.transfers.push_back({Direction::kRead, client.handles[0], 0, std::span(&in_slices[i], 1)});
      batch.transfers.push_back({Direction::kWrite, client.handles[1 + i], 0, std::span(&out_slice, 1)});
    }
    client.brick->submit(batch);
    if (with_callback) {
      ASSERT_TRUE(eventually([&] { return done.load(); }, 60s));
    } else {
      EXPECT_TRUE(client.brick->wait(waited).ok());
    }
    EXPECT_EQ(batch.status().code(), 0);
    std::vector<std::byte> got(kBlockBytes);
    ASSERT_TRUE(transfer(*client.brick, Direction::kRead, client.handles[kPairs], 0, got).ok());
    EXPECT_EQ(got, out);
    EXPECT_EQ(in[0], in[kPairs - 1]);
  }
}

TEST(TcpBrick, CallbacksComeWhileOthersWait) {
  OpenClient client(2);
  struct Counter {
    std::atomic<int> done{0};
  } counter;
  constexpr int kBatches = 500;
  std::vector<std::byte> buffer(4096);
  const LocalSlice slice{buffer.data(), 4096, 0};
  std::vector<std::unique_ptr<Batch>> batches;
  std::thread waiter([&] {
    std::vector<std::byte> own(4096);
    for (int i = 0; i < kBatches; ++i)
      ASSERT_TRUE(transfer(*client.brick, Direction::kRead, client.handles[1], 0, own).ok());
  });
  for (int i = 0; i < kBatches; ++i) {
    batches.push_back(
        std::make_unique<Batch>([](Batch&, void* context) { ++static_cast<Counter*>(context)->done; }, &counter));
    const uint64_t own_place =
        static_cast<uint64_t>(i) * slice.length_bytes;  // batches under way together may not overlap
    batches.back()->transfers.push_back({Direction::kWrite, client.handles[0], own_place, std::span(&slice, 1)});
    client.brick->submit(*batches.back());
  }
  waiter.join();
  EXPECT_TRUE(eventually([&] { return counter.done == kBatches; }));
}

// A refused read brings no payload; what follows it on the connection must still reach the right memory.
TEST(TcpBrick, RefusedReadsLeaveTheOthersRight) {
  OpenClient client(1);
  auto bytes = pattern(kBlockBytes, 4);
  ASSERT_TRUE(transfer(*client.brick, Direction::kWrite, client.handles[0], 0, bytes).ok());
  Handle dead = client.handles[0];
  dead.remote_key += 1000;
  constexpr size_t kReads = 64;
  std::vector<std::vector<std::byte>> buffers(kReads, std::vector<std::byte>(3000));
  std::vector<LocalSlice> slices;
  for (auto& buffer : buffers) slices.push_back({buffer.data(), 3000, 0});
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Batch>> batches;
    for (size_t i = 0; i < kReads; ++i) {
      batches.push_back(std::make_unique<Batch>());
      batches[i]->transfers.push_back(
          {Direction::kRead, i % 3 == 0 ? client.handles[0] : dead, i * 5000, std::span(&slices[i], 1)});
      client.brick->submit(*batches[i]);
    }
    for (size_t i = 0; i < kReads; ++i) {
      const Status status = client.brick->wait(*batches[i]);
      ASSERT_EQ(status.ok(), i % 3 == 0) << i;
      if (!status.ok()) continue;
      ASSERT_TRUE(std::equal(buffers[i].begin(), buffers[i].end(), bytes.begin() + i * 5000)) << i;
    }
  }
}

// Answers of one batch come together; the payload of those behind a refused read stands where that read's would.
TEST(TcpBrick, RefusedTransfersOfABatchLeaveTheRestOfItRight) {
#if defined(__SANITIZE_THREAD__)
  constexpr unsigned kRounds = 20;  // each compares megabytes byte by byte, which takes a hundred times as long
#else
  constexpr unsigned kRounds = 200;
#endif
  OpenClient client(1);
  const size_t lengths[] = {1, 100, 4096, 4097, 20'000, 70'000};
  for (unsigned round = 0; round < kRounds; ++round) {
    std::mt19937_64 random(round);
    const size_t count = 1 + random() % 40;
    std::vector<std::vector<std::byte>> buffers(count);
    std::vector<LocalSlice> slices(count);
    std::vector<bool> refused(count);
    std::vector<std::byte> expected = pattern(kBlockBytes, round);
    ASSERT_TRUE(transfer(*client.brick, Direction::kWrite, client.handles[0], 0, expected).ok());
    Batch batch;
    for (size_t i = 0; i < count; ++i) {
      const size_t length = lengths[random() % std::size(lengths)];
      const uint64_t offset = kBlockBytes / count * i;
      const bool write = random() % 2 == 0;
      const size_t moved = std::min<size_t>(length, kBlockBytes / count);  // none overlap
      buffers[i] = write ? pattern(moved, round + 1000) : std::vector<std::byte>(moved, std::byte{0x77});
      slices[i] = {buffers[i].data(), static_cast<uint32_t>(moved), 0};
      refused[i] = random() % 4 == 0;
      Handle handle = client.handles[0];
      if (refused[i]) handle.remote_key ^= 0x5a5a5a5a;
      batch.transfers.push_back({write ? Direction::kWrite : Direction::kRead, handle, offset, {&slices[i], 1}});
      if (write && !refused[i])
        std::copy(buffers[i].begin(), buffers[i].end(), expected.begin() + static_cast<ptrdiff_t>(offset));
    }
    client.brick->submit(batch);
    const bool any = std::find(refused.begin(), refused.end(), true) != refused.end();
    EXPECT_EQ(client.brick->wait(batch).ok(), !any);
    std::vector<std::byte> now(kBlockBytes);
    ASSERT_TRUE(transfer(*client.brick, Direction::kRead, client.handles[0], 0, now).ok());
    ASSERT_EQ(now, expected) << "round " << round;
    for (size_t i = 0; i < count; ++i) {
      const Transfer& moved = batch.transfers[i];
      if (moved.direction == Direction::kWrite || refused[i]) continue;
      const auto from = expected.begin() + static_cast<ptrdiff_t>(moved.offset);
      ASSERT_TRUE(std::equal(buffers[i].begin(), buffers[i].end(), from)) << "round " << round << ", transfer " << i;
    }
  }
}

TEST(TcpBrick, SecretsMustBeTheSame) {
  TcpTestBrick server(memory_config(1), Secret{"right"});
  EXPECT_EQ(server.connect(Secret{"wrong"})->open(request_for(1), nullptr).code(), EACCES);
  EXPECT_EQ(server.connect(Secret{})->open(request_for(1), nullptr).code(), EACCES);
  EXPECT_EQ(server.connect(Secret{"right"})->open(request_for(1), nullptr).code(), 0);
  TcpTestBrick open_server(memory_config(1));
  EXPECT_EQ(open_server.connect(Secret{"right"})->open(request_for(1), nullptr).code(), EACCES);
}

TEST(TcpBrick, HolderIsNamed) {
  TcpTestBrick server(memory_config(1));
  const auto first = server.connect();
  ASSERT_TRUE(first->open(request_for(1), nullptr).ok());
  Holder holder;
  EXPECT_EQ(server.connect()->open(request_for(2), &holder).code(), EBUSY);
  EXPECT_EQ(holder.name, "client 1");
  EXPECT_GT(holder.since_unix_seconds, 0);
}

TEST(TcpBrick, NobodyThereIsToldAtOnce) {
  const testing::ReservedPort port;
  EXPECT_TRUE(takes_less_than(limits::kConnectTimeout, [&] {
    EXPECT_EQ(make_tcp_brick("127.0.0.1", port.number(), {})->open(request_for(1), nullptr).code(), ECONNREFUSED);
  }));
  EXPECT_EQ(make_tcp_brick("no-such-host.invalid", 1, {})->open(request_for(1), nullptr).code(), EHOSTUNREACH);
}

TEST(TcpBrick, SilentPeerIsGivenUp) {
  const auto listening = tcp::listen_on("127.0.0.1", 0);  // the kernel accepts, nobody answers
  ASSERT_TRUE(listening.ok());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(make_tcp_brick("127.0.0.1", *tcp::local_port(listening->get()), {})->open(request_for(1), nullptr).code(),
            ETIMEDOUT);
  EXPECT_LT(std::chrono::steady_clock::now() - start, limits::kHandshakeTimeout + 60s);
}

TEST(TcpBrick, ForeignPeerIsRecognised) {
  const auto listening = tcp::listen_on("127.0.0.1", 0);
  ASSERT_TRUE(listening.ok());
  std::thread foreigner([&] {
    const UniqueFd fd(::accept(listening->get(), nullptr, nullptr));
    std::vector<std::byte> text(200, std::byte{'x'});
    iovec part = tcp::to_iovec(text);
    EXPECT_TRUE(tcp::send_all(fd.get(), std::span(&part, 1)).ok());
    std::array<std::byte, 1> rest;
    while (tcp::receive_all(fd.get(), rest).ok()) continue;
  });
  EXPECT_EQ(make_tcp_brick("127.0.0.1", *tcp::local_port(listening->get()), {})->open(request_for(1), nullptr).code(),
            EPROTO);
  foreigner.join();
}

TEST(TcpBrick, BricksEndIsNoticedAndOpenComesBack) {
  std::atomic<int> lost{0};
  std::atomic<int> why{0};
  OpenClient client(2);
  const auto brick = client.server.connect();
  brick->set_on_lost([&](Error error) {
    why = error.code();
    ++lost;
  });
  ASSERT_TRUE(client.brick->close().ok());
  const auto session = brick->open(request_for(5), nullptr);
  ASSERT_TRUE(session.ok());
  const auto handle = brick->map({BlockAddress{0}, 1}, Access::kReadWrite)->at(0);
  client.server.restart();
  EXPECT_TRUE(eventually([&] { return lost == 1; }));
  EXPECT_EQ(why, ENOTCONN);
  std::vector<std::byte> bytes(10);
  EXPECT_EQ(transfer(*brick, Direction::kWrite, handle, 0, bytes).code(), ENOTCONN);
  EXPECT_EQ(brick->stat().code(), ENOTCONN);
  const auto again = brick->open(request_for(5), nullptr);
  ASSERT_TRUE(again.ok());
  EXPECT_NE(again->boot, session->boot);
  EXPECT_TRUE(brick->close().ok());
  EXPECT_EQ(brick->close().code(), ENOTCONN);
  EXPECT_EQ(lost, 1);
}

TEST(TcpBrick, IdleSessionOutlivesTheLease) {
  BrickConfig config = memory_config(1);
  config.lease = limits::kKeepAlive + 3'000ms;
  TcpTestBrick server(config);
  const auto brick = server.connect();
  ASSERT_TRUE(brick->open(request_for(1), nullptr).ok());
  std::this_thread::sleep_for(config.lease + 1'500ms);  // the listener looks once a second
  EXPECT_TRUE(brick->stat().ok());
}

TEST(TcpBrick, AWaitGoesOnWhenItsConnectionAloneIsLost) {
  OpenClient client(1);
  const auto before = sockets_to(client.server.port());
  const auto wait = [&](uint64_t tag) {
    const calls::Seen seen{.tag = tag};
    return client.brick->wait_for_notices(std::span(&seen, 1), 10s);
  };
  const auto cut_its_connection = [&] {
    for (const int fd : sockets_to(client.server.port())) {
      if (!before.contains(fd)) ::shutdown(fd, SHUT_RDWR);
    }
  };
  const auto is_connected = [&] { return sockets_to(client.server.port()).size() > before.size(); };
  for (uint64_t tag = 1; tag <= 2; ++tag) {
    auto waiting = std::async(std::launch::async, wait, tag);
    EXPECT_TRUE(eventually(is_connected));
    std::this_thread::sleep_for(50ms);
    cut_its_connection();
    EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
    ASSERT_TRUE(client.brick->notify(tag, tag).ok());
    const auto told = waiting.get();
    ASSERT_EQ(told.code(), 0);
    EXPECT_EQ(told->front().value, tag);
    cut_its_connection();  // also while nobody waits on it
  }
  EXPECT_EQ(wait(1).code(), 0);
  EXPECT_TRUE(client.brick->stat().ok());
}

TEST(TcpBrick, ImpossibleTransfersAreRefusedHere) {
  OpenClient client(1);
  std::vector<std::byte> bytes(4096);
  EXPECT_EQ(transfer(*client.brick, Direction::kRead, client.handles[0], kBlockBytes - 4095, bytes).code(), EINVAL);
  EXPECT_EQ(transfer(*client.brick, Direction::kRead, client.handles[0], UINT64_MAX, bytes).code(), EINVAL);
  EXPECT_EQ(transfer(*client.brick, Direction::kRead, client.handles[0], 0, std::span(bytes).first(0)).code(), EINVAL);
  EXPECT_EQ(transfer(*client.brick, Direction::kRead, client.handles[0], 0, bytes).code(), 0);
  EXPECT_EQ(client.brick->alloc({BlockAddress{1}, 1}).code(), EINVAL);
  EXPECT_EQ(client.brick->alloc({BlockAddress{0}, limits::kBlocksPerCall + 1}).code(), EINVAL);
  EXPECT_EQ(client.brick->alloc({BlockAddress{UINT64_MAX - kBlockBytes + 1}, 1}).code(), EINVAL);
  Batch nothing;
  client.brick->submit(nothing);
  EXPECT_TRUE(client.brick->wait(nothing).ok());
}

}  // namespace
}  // namespace brickfs
