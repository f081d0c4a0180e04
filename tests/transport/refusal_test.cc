// SPDX-License-Identifier: Apache-2.0
// Refusals are believed only from who proves that he knows the secret: an impostor at the brick's address ends no
// mount.
#include "transport/brick/refusal.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/raw_connection.h"
#include "tests/support/reserved_port.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/tcp/greet.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::memory_config;
using testing::request_for;

const Secret kSecret{"the brick's secret"};

// Takes connections at a port and refuses each: in the Welcome, or in the answer to OPEN or ATTACH. It has heard of
// proofs, and makes its own with another secret.
class Impostor {
 public:
  Impostor(uint16_t port, int welcome_status, int status)
      : listening_(*tcp::listen_on("127.0.0.1", port)), welcome_status_(welcome_status), status_(status) {
    thread_ = std::thread([this] { run(); });
  }
  ~Impostor() {
    tcp::shut_down(listening_.get());
    thread_.join();
  }
  uint16_t port() const { return *tcp::local_port(listening_.get()); }
  int refused() const { return refused_; }

 private:
  void run() {
    for (;;) {
      const UniqueFd fd(::accept(listening_.get(), nullptr, nullptr));
      if (!fd) return;
      tcp::configure(fd.get());
      refuse(fd.get());
    }
  }
  void refuse(int fd) {
    wire::Hello hello;
    const auto deadline = tcp::Clock::now() + 60s;
    if (!tcp::receive_before(fd, std::as_writable_bytes(std::span(&hello, 1)), deadline).ok()) return;
    wire::Welcome welcome;
    welcome.status = static_cast<uint16_t>(welcome_status_);
    iovec part = tcp::to_iovec(bytes_of(welcome));
    if (!tcp::send_all(fd, std::span(&part, 1)).ok()) return;
    ++refused_;
    tcp::Stream stream = testing::stream_of(fd);
    const auto call = tcp::receive_frame(stream, deadline);
    if (!call.ok()) return;
    const auto body = encode_refusal({"a guess"}, {hello.nonce, welcome.nonce, hello.features, welcome.features},
                                     wire::Kind{call->header.kind}, status_);
    wire::CallHeader header = call->header;
    header.kind |= wire::kReplyBit;
    header.status = static_cast<uint16_t>(status_);
    header.length_bytes = static_cast<uint32_t>(body.size());
    static_cast<void>(tcp::send_frame(stream, header, body).ok());
  }

  const UniqueFd listening_;
  const int welcome_status_;
  const int status_;
  std::atomic<int> refused_{0};
  std::thread thread_;
};

TEST(Refusal, SaysWhatItSaysWhenItIsProved) {
  const Nonces nonces{random_nonce(), random_nonce()};
  Holder holder;
  holder.name = "somebody";
  holder.kept_for = 3s;
  const auto busy = encode_refusal(kSecret, nonces, wire::Kind::kOpen, EBUSY, holder);
  Holder told;
  EXPECT_EQ(explain_refusal(kSecret, nonces, wire::Kind::kOpen, EBUSY, busy, &told).code(), EBUSY);
  EXPECT_EQ(told.name, "somebody");
  EXPECT_EQ(told.kept_for, 3s);
  const auto stale = encode_refusal(kSecret, nonces, wire::Kind::kOpen, ESTALE);
  EXPECT_EQ(explain_refusal(kSecret, nonces, wire::Kind::kOpen, ESTALE, stale, nullptr).code(), ESTALE);
}

TEST(Refusal, SaysNothingWithoutItsProof) {
  const Nonces nonces{random_nonce(), random_nonce()};
  const auto stale = encode_refusal(kSecret, nonces, wire::Kind::kOpen, ESTALE);
  const auto explain = [&](const Nonces& with, wire::Kind kind, int status, std::span<const std::byte> body) {
    return explain_refusal(kSecret, with, kind, status, body, nullptr).code();
  };
  EXPECT_EQ(explain(nonces, wire::Kind::kOpen, ESTALE, {}), EKEYREJECTED);
  EXPECT_EQ(explain({random_nonce(), nonces.server}, wire::Kind::kOpen, ESTALE, stale), EKEYREJECTED);
  EXPECT_EQ(explain(nonces, wire::Kind::kAttach, ESTALE, stale), EKEYREJECTED);
  EXPECT_EQ(explain(nonces, wire::Kind::kOpen, ENOENT, stale), EKEYREJECTED);
  auto changed = encode_refusal(kSecret, nonces, wire::Kind::kOpen, EBUSY, {});
  changed[0] ^= std::byte{1};
  EXPECT_EQ(explain(nonces, wire::Kind::kOpen, EBUSY, changed), EKEYREJECTED);
  EXPECT_EQ(explain(nonces, wire::Kind::kOpen, EACCES, {}), EACCES);  // so a wrong secret is answered
}

// Never an error that would end a mount, nor one that is taken for the brick's.
TEST(Refusal, AnImpostorCannotRefuseInTheBricksName) {
  for (const int status : {ESTALE, EBUSY, ENOENT, EINVAL, EPROTO, ENOBUFS}) {
    for (const bool in_welcome : {false, true}) {
      const Impostor impostor(0, in_welcome ? status : 0, status);
      const auto brick = make_tcp_brick("127.0.0.1", impostor.port(), kSecret);
      Holder holder;
      const auto opened = brick->open(request_for(1), &holder);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.code(), in_welcome ? EPROTO : EKEYREJECTED) << status;
      EXPECT_FALSE(is_brick_answer(opened.error())) << status;
    }
  }
}

TEST(Refusal, OfTwoPathsTheOneThatLedToSomebodyIsToldOf) {
  const Error nobody(EHOSTUNREACH, "nobody");
  for (const int code : {EACCES, EKEYREJECTED, EPROTO, EMSGSIZE}) {
    const Error somebody(code, "somebody");
    EXPECT_TRUE(more_telling(somebody, nobody).is(code));
    EXPECT_TRUE(more_telling(nobody, somebody).is(code));
    EXPECT_TRUE(more_telling(somebody, Error(EBUSY, "the brick's answer")).is(EBUSY));
  }
}

// Whoever has taken the brick's port while it was down must be gone again, and nothing else must be done.
TEST(Refusal, AMountOutlivesAnImpostor) {
  std::string why;
  const auto service = BrickService::open(memory_config(4), &why);
  ASSERT_TRUE(service.ok()) << why;
  const testing::ReservedPort reserved;
  const uint16_t port = reserved.number();
  auto listener = TcpListener::open(**service, {SourceKind::kTcp, "127.0.0.1", port}, kSecret);
  ASSERT_TRUE(listener.ok());
  VolumeOptions options;
  options.open = request_for(1);
  const auto volume = VolumeClient::open(make_tcp_brick("127.0.0.1", port, kSecret), options, nullptr);
  ASSERT_TRUE(volume.ok());
  ASSERT_TRUE((*volume)->alloc({BlockAddress{0}, 1}).ok());
  listener->reset();
  for (const int welcome_status : {0, ESTALE}) {
    const Impostor impostor(port, welcome_status, ESTALE);
    EXPECT_TRUE(eventually([&] { return impostor.refused() >= 3; }));
  }
  EXPECT_TRUE((*volume)->final_error().ok());
  listener = TcpListener::open(**service, {SourceKind::kTcp, "127.0.0.1", port}, kSecret);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ((*volume)->stat().code(), 0);
  EXPECT_EQ((*volume)->close().code(), 0);
}

// The brick's own ESTALE still ends it.
TEST(Refusal, AProvedTakeOverIsFinal) {
  testing::TcpTestBrick brick(memory_config(4), kSecret);
  VolumeOptions options;
  options.open = request_for(1);
  const auto volume = VolumeClient::open(brick.connect(), options, nullptr);
  ASSERT_TRUE(volume.ok());
  const auto thief = brick.connect();
  ASSERT_TRUE(thief->open(request_for(2, OpenMode::kExclusive, true), nullptr).ok());
  EXPECT_TRUE(eventually([&] { return (*volume)->final_error().code() == ESTALE; }));
}

}  // namespace
}  // namespace brickfs
