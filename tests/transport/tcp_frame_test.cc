// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "transport/base/unique_fd.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;

size_t bytes_in_use() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

class TcpFrame : public ::testing::Test {
 protected:
  TcpFrame() {
    int both[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);
    sender_ = UniqueFd(both[0]);
    receiver_ = tcp::Stream(UniqueFd(both[1]));
  }
  void send(std::span<const std::byte> bytes) const {
    iovec part = tcp::to_iovec(bytes);
    EXPECT_TRUE(tcp::send_all(sender_.get(), std::span(&part, 1)).ok());
  }

  UniqueFd sender_;
  tcp::Stream receiver_{UniqueFd()};
};

TEST_F(TcpFrame, ALongBodyComesWhole) {
  std::vector<std::byte> body(wire::kBodyBytes);
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<std::byte>(i * 7 + i / 256);
  wire::CallHeader header;
  header.length_bytes = static_cast<uint32_t>(body.size());
  auto received = std::async(std::launch::async, [&] { return tcp::receive_frame(receiver_, tcp::Clock::now() + 5s); });
  send(bytes_of(header));
  send(body);
  const auto frame = received.get();
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->body, body);
}

// Who names a length and sends nothing takes no memory by it.
TEST_F(TcpFrame, ABodyTakesMemoryAsItComes) {
  wire::CallHeader header;
  header.length_bytes = wire::kBodyBytes;
  auto received =
      std::async(std::launch::async, [&] { return tcp::receive_frame(receiver_, tcp::Clock::now() + 5s).code(); });
  std::this_thread::sleep_for(50ms);  // it waits
  const size_t before = bytes_in_use();
  send(bytes_of(header));
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(bytes_in_use(), before + 64 * 1024);
  sender_.reset();
  EXPECT_EQ(received.get(), ENOTCONN);
}

}  // namespace
}  // namespace brickfs
