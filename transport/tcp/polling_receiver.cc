// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/polling_receiver.h"

#include <sched.h>
#include <sys/socket.h>

#include "transport/tcp/socket.h"

namespace brickfs::tcp {
namespace {

constexpr std::chrono::microseconds kPoll{50};
// A wait of kPoll and the sleep and wake-up after it: what took longer is not worth looking for.
constexpr std::chrono::microseconds kSoon{150};

Result<size_t> receive_now(int fd, std::span<const iovec> parts) { return receive_some(fd, parts, MSG_DONTWAIT); }

Result<size_t> poll(int fd, std::span<const iovec> parts) {
  auto got = receive_now(fd, parts);
  const auto until = Clock::now() + kPoll;
  while (got.code() == EAGAIN && Clock::now() < until) {
    ::sched_yield();  // whoever is to send it may want this processor
    got = receive_now(fd, parts);
  }
  return got;
}

}  // namespace

Result<size_t> PollingReceiver::receive_some(int fd, std::span<const iovec> parts, bool alone) {
  const auto begin = Clock::now();
  auto got = alone && last_wait_ < kSoon ? poll(fd, parts) : Result<size_t>(Error(EAGAIN, "nothing came"));
  if (got.code() == EAGAIN) got = tcp::receive_some(fd, parts);
  last_wait_ = Clock::now() - begin;
  return got;
}

}  // namespace brickfs::tcp
