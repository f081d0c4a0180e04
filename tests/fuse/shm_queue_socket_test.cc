// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "fs/shm_queue/socket.h"

namespace brickfs::shm_queue {
namespace {

class ShmQueueSocket : public ::testing::Test {
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

TEST_F(ShmQueueSocket, PassesADescriptor) {
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

TEST_F(ShmQueueSocket, LetsNoDescriptorFallToTheKernel) {
  const Message message{.kind = Message::Kind::kFile, .number = 7, .buffer_bytes = 0};
  constexpr size_t kMost = 253;
  iovec part{const_cast<Message*>(&message), sizeof(message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMost * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(kMost * sizeof(int));
  const std::vector<int> all(kMost, program_.get());
  std::memcpy(CMSG_DATA(rights), all.data(), kMost * sizeof(int));
  ASSERT_EQ(sendmsg(program_.get(), &header, 0), static_cast<ssize_t>(sizeof(message)));
  Message received{};
  UniqueFd first;
  std::vector<UniqueFd> others;
  ASSERT_TRUE(receive_packet(mount_.get(), &received, sizeof(received), &first, &others).ok());
  EXPECT_EQ(received.number, 7u);
  EXPECT_TRUE(first);
  EXPECT_EQ(others.size(), kMost - 1);
  EXPECT_TRUE(std::ranges::all_of(others, &UniqueFd::valid));
}

TEST_F(ShmQueueSocket, TellsThatThereIsNoRoomForADescriptor) {
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
}  // namespace brickfs::shm_queue
