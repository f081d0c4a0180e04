// SPDX-License-Identifier: Apache-2.0
// A port of the loopback that stays this test's own, whether anybody listens there or not: another process of tests, or
// a connection that begins, would get it as soon as it is free for a moment.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "transport/base/unique_fd.h"

namespace brickfs::testing {

class ReservedPort {
 public:
  ReservedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;  // as who listens there has it
    EXPECT_EQ(::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    number_ = ntohs(address.sin_port);
  }
  uint16_t number() const { return number_; }

 private:
  UniqueFd fd_;
  uint16_t number_ = 0;
};

}  // namespace brickfs::testing
