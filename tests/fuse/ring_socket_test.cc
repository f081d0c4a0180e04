// SPDX-License-Identifier: Apache-2.0
#include "fs/direct/ring_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace brickfs::direct {
namespace {

class RingSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    program_ = UniqueFd(ends[0]);
    mount_ = UniqueFd(ends[1]);
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit_), 0);
  }
  void TearDown() override { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit_), 0); }

  // No number below is free but those in use.
  void take_all_descriptors() const {
    const UniqueFd next(fcntl(mount_.get(), F_DUPFD_CLOEXEC, 0));
    rlimit none = limit_;
    none.rlim_cur = static_cast<rlim_t>(next.get());
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  Status send(uint32_t number, int descriptor) const {
    const Message message{.kind = Message::Kind::kFile, .number = number, .buffer_bytes = 0};
    return send_packet(program_.get(), &message, sizeof(message), descriptor);
  }
  Status receive(Message& message, UniqueFd& descriptor) const {
    return receive_packet(mount_.get(), &message, sizeof(message), &descriptor);
  }

  UniqueFd program_;
  UniqueFd mount_;
  rlimit limit_{};
};

TEST_F(RingSocket, PassesADescriptor) {
  Message message{};
  UniqueFd descriptor;
  ASSERT_TRUE(send(7, program_.get()).ok());
  ASSERT_TRUE(receive(message, descriptor).ok());
  EXPECT_EQ(message.number, 7u);
  EXPECT_TRUE(descriptor);
  ASSERT_TRUE(send(8, -1).ok());
  ASSERT_TRUE(receive(message, descriptor).ok());
  EXPECT_EQ(message.number, 8u);
  EXPECT_FALSE(descriptor);
}

TEST_F(RingSocket, TellsThatThereIsNoRoomForADescriptor) {
  Message message{};
  UniqueFd descriptor;
  ASSERT_TRUE(send(7, program_.get()).ok());
  ASSERT_TRUE(send(8, -1).ok());
  ASSERT_NO_FATAL_FAILURE(take_all_descriptors());
  EXPECT_EQ(receive(message, descriptor).code(), EMFILE);
  EXPECT_EQ(message.number, 7u);
  EXPECT_FALSE(descriptor);
  EXPECT_TRUE(receive(message, descriptor).ok());
  EXPECT_EQ(message.number, 8u);
}

}  // namespace
}  // namespace brickfs::direct
