// SPDX-License-Identifier: Apache-2.0
// A tcp client among bricks that do not keep to the protocol: its transfers end with an error, and no sooner than
// nobody touches their memory.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/raw_connection.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/brick/wire.h"
#include "transport/tcp/data_channel.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs {
namespace {

using testing::pattern;
using testing::request_for;
using testing::stream_of;

template <typename T>
bool receive(int fd, T& value) {
  return tcp::receive_all(fd, std::as_writable_bytes(std::span(&value, 1))).ok();
}

void send(int fd, std::span<const std::byte> bytes) {
  iovec part = tcp::to_iovec(bytes);
  static_cast<void>(tcp::send_all(fd, std::span(&part, 1)).ok());
}

void answer(int fd, const Message& call, std::span<const std::byte> body) {
  wire::CallHeader header = call.header;
  header.kind |= wire::kReplyBit;
  header.length_bytes = static_cast<uint32_t>(body.size());
  tcp::Stream stream = stream_of(fd);
  static_cast<void>(tcp::send_frame(stream, header, body).ok());
}

// Does the handshake as it should, and then whatever `on_transfer` (once, on the first connection used) and `on_call`
// do.
class LyingBrick {
 public:
  using OnTransfer = std::function<void(int fd, const wire::TransferHeader&)>;
  using OnCall = std::function<void(int fd, const Message&)>;

  // Unless it `echoes` it is as one behind a path that loses large packets.
  LyingBrick(OnTransfer on_transfer, OnCall on_call, bool echoes = true)
      : on_transfer_(std::move(on_transfer)),
        on_call_(std::move(on_call)),
        echoes_(echoes),
        listening_(*tcp::listen_on("127.0.0.1", 0)) {
    thread_ = std::thread([this] { accept_all(); });
  }
  ~LyingBrick() {
    tcp::shut_down(listening_.get());
    thread_.join();
  }
  uint16_t port() const { return *tcp::local_port(listening_.get()); }

 private:
  void accept_all() {
    std::vector<std::thread> threads;
    while (true) {
      UniqueFd fd(::accept(listening_.get(), nullptr, nullptr));
      if (!fd) break;
      tcp::configure(fd.get());
      threads.emplace_back([this, fd = std::move(fd)] { serve(fd.get()); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void serve(int fd) {
    wire::Hello hello;
    if (!receive(fd, hello)) return;
    wire::Welcome welcome;
    welcome.nonce = random_nonce();
    const Nonces nonces{hello.nonce, welcome.nonce, hello.features, welcome.features};
    send(fd, bytes_of(welcome));
    tcp::Stream stream = stream_of(fd);
    const auto first = tcp::receive_frame(stream, tcp::Clock::now() + std::chrono::seconds(5));
    if (!first.ok()) return;
    if (first->header.kind == static_cast<uint16_t>(wire::Kind::kOpen)) {
      wire::OpenAnswer body;
      body.durability = 1;
      answer(fd, *first, wire::encode(bytes_of(body), make_proof({}, wire::kOpenedPurpose, nonces, bytes_of(body))));
      return serve_calls(fd);
    }
    answer(fd, *first, make_proof({}, wire::kAttachedPurpose, nonces, {}));
    wire::TransferHeader header;
    if (load<wire::AttachCall>(first->body).role == 1 && receive(fd, header)) on_transfer_(fd, header);
    if (load<wire::AttachCall>(first->body).role == 2) serve_calls(fd);
  }

  void serve_calls(int fd) {
    tcp::Stream stream = stream_of(fd);
    while (true) {
      const auto call = tcp::receive_frame(stream, tcp::Clock::now() + std::chrono::seconds(30));
      if (!call.ok()) return;
      if (call->header.kind == static_cast<uint16_t>(wire::Kind::kEcho)) {
        if (echoes_) answer(fd, *call, call->body);
      } else {
        on_call_(fd, *call);
      }
    }
  }

  const OnTransfer on_transfer_;
  const OnCall on_call_;
  const bool echoes_;
  const UniqueFd listening_;
  std::thread thread_;
};

// What a 4 MiB transfer with such a brick ends with. Its memory is freed at once.
Status try_transfer(Direction direction, LyingBrick::OnTransfer on_transfer) {
  LyingBrick liar(std::move(on_transfer), [](int, const Message&) {});
  const auto brick = make_tcp_brick("127.0.0.1", liar.port(), {});
  EXPECT_EQ(brick->open(request_for(1), nullptr).code(), 0);
  auto bytes = pattern(limits::kTransferBytes, 1);
  const Handle handle{{BlockAddress{0}, 2}, Access::kReadWrite, 0, 1};
  const Status status = testing::transfer(*brick, direction, handle, 0, bytes);
  EXPECT_EQ(brick->stat().code(), ENOTCONN);
  return status;
}

TEST(TcpLyingBrick, AnswersToOtherTransfersEndTheSession) {
  for (const auto direction : {Direction::kRead, Direction::kWrite}) {
    const Status status = try_transfer(direction, [](int fd, const wire::TransferHeader& header) {
      send(fd, bytes_of(wire::TransferAnswer{0, 0, header.id + 1}));
    });
    EXPECT_EQ(status.code(), ENOTCONN);
  }
}

TEST(TcpLyingBrick, MorePayloadThanAskedForEndsTheSession) {
  const Status status = try_transfer(Direction::kRead, [](int fd, const wire::TransferHeader& header) {
    send(fd, bytes_of(wire::TransferAnswer{0, header.length_bytes + 1, header.id}));
    send(fd, std::vector<std::byte>(header.length_bytes + 1));
  });
  EXPECT_EQ(status.code(), ENOTCONN);
}

TEST(TcpLyingBrick, HalfAPayloadIsAnError) {
  const Status status = try_transfer(Direction::kRead, [](int fd, const wire::TransferHeader& header) {
    send(fd, bytes_of(wire::TransferAnswer{0, header.length_bytes, header.id}));
    send(fd, std::vector<std::byte>(header.length_bytes / 2));
  });
  EXPECT_EQ(status.code(), ENOTCONN);
}

// "Done" before the bytes were sent must not complete the write while they are still read from the caller's memory. The
// socket has less room than the write needs, so that its sender is held until the liar goes.
TEST(TcpLyingBrick, AnswersAheadOfTheirRequestsDoNotCount) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const int room_bytes = 64 * 1024;
  ASSERT_EQ(::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room_bytes, sizeof(room_bytes)), 0);
  UniqueFd liar(ends[1]);
  tcp::DataChannel channel(tcp::Stream(UniqueFd(ends[0])), [](const Error&) {});
  auto bytes = pattern(limits::kTransferBytes, 1);
  const LocalSlice slice{bytes.data(), static_cast<uint32_t>(bytes.size()), 0};
  const Transfer write{Direction::kWrite, {{BlockAddress{0}, 2}, Access::kReadWrite, 0, 1}, 0, {&slice, 1}};
  const Transfer* const writes[] = {&write};
  std::promise<int> completed;
  Batch batch([](Batch& done, void* to) { static_cast<std::promise<int>*>(to)->set_value(done.status().code()); },
              &completed);
  batch.begin(1);
  std::thread sender([&] { channel.submit(batch, writes); });
  wire::TransferHeader header;
  EXPECT_TRUE(receive(liar.get(), header));
  send(liar.get(), bytes_of(wire::TransferAnswer{0, 0, header.id}));
  auto code = completed.get_future();
  EXPECT_EQ(code.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  liar.reset();
  sender.join();
  EXPECT_EQ(code.get(), ENOTCONN);
}

TEST(TcpLyingBrick, APathThatLosesLargePacketsIsNoPath) {
  LyingBrick liar([](int, const wire::TransferHeader&) {}, [](int, const Message&) {}, false);
  const auto brick = make_tcp_brick("127.0.0.1", liar.port(), {});
  const auto opened = brick->open(request_for(1), nullptr);
  EXPECT_EQ(opened.code(), EMSGSIZE);
  EXPECT_NE(std::string(opened.error().what()).find("MTU"), std::string::npos);
}

// It answers calls at once; but what is to be moved does not.
TEST(TcpLyingBrick, ABrickThatTakesAndGivesNoByteIsSilent) {
  using std::chrono::milliseconds;
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    std::promise<void> ended;
    const auto end = ended.get_future().share();
    LyingBrick liar([end](int, const wire::TransferHeader&) { end.wait(); },
                    [](int fd, const Message& call) { answer(fd, call, {}); });
    const auto brick = make_tcp_brick("127.0.0.1", liar.port(), {});
    ASSERT_TRUE(brick->open(request_for(1), nullptr).ok());
    EXPECT_EQ(brick->silence(Asking::kYes), milliseconds(0));
    auto bytes = pattern(limits::kTransferBytes, 1);
    const LocalSlice slice{bytes.data(), static_cast<uint32_t>(bytes.size()), 0};
    Batch batch;
    batch.transfers.push_back({direction, {{BlockAddress{0}, 2}, Access::kReadWrite, 0, 1}, 0, {&slice, 1}});
    std::thread mover([&] {
      brick->submit(batch);
      EXPECT_EQ(brick->wait(batch).code(), ENOTCONN);
    });
    const auto until = std::chrono::steady_clock::now() + milliseconds(5'000);
    while (brick->silence(Asking::kYes) < milliseconds(700) && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_GE(brick->silence(Asking::kNo), milliseconds(700));
    brick->abandon();
    EXPECT_EQ(brick->silence(Asking::kNo), milliseconds(0));
    mover.join();
    ended.set_value();
  }
}

TEST(TcpLyingBrick, NonsenseInAnAnswerEndsTheSession) {
  LyingBrick liar([](int, const wire::TransferHeader&) {},
                  [](int fd, const Message& call) { answer(fd, call, std::vector<std::byte>(33, std::byte{7})); });
  const auto brick = make_tcp_brick("127.0.0.1", liar.port(), {});
  const std::function<int(Brick&)> calls[] = {
      [](Brick& at) {
        return at.map({BlockAddress{0}, 1}, Access::kRead).code();
      },
      [](Brick& at) { return at.list(BlockAddress{0}).code(); },
      [](Brick& at) { return at.stat().code(); },
  };
  for (const auto& call : calls) {
    ASSERT_TRUE(brick->open(request_for(1), nullptr).ok());
    EXPECT_EQ(call(*brick), EPROTO);
    EXPECT_EQ(brick->stat().code(), ENOTCONN);
  }
}

}  // namespace
}  // namespace brickfs
