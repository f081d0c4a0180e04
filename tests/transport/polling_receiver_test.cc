// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/polling_receiver.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "transport/base/unique_fd.h"

namespace brickfs::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

class PollingReceive : public ::testing::Test {
 protected:
  PollingReceive() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    near_ = Stream(UniqueFd(ends[0]));
    far_ = UniqueFd(ends[1]);
  }

  void send(char byte) { EXPECT_EQ(::write(far_.get(), &byte, 1), 1); }
  Result<char> receive(bool alone) {
    char byte = 0;
    const iovec part{&byte, 1};
    const auto got = receiver_.receive_some(near_, std::span(&part, 1), alone);
    if (!got.ok()) return got.error();
    EXPECT_EQ(*got, 1u);
    return byte;
  }
  // The byte comes after so long.
  Result<char> receive_after(milliseconds time, char byte) {
    std::thread sender([&] {
      std::this_thread::sleep_for(time);
      send(byte);
    });
    const auto got = receive(true);
    sender.join();
    return got;
  }

  Stream near_{UniqueFd()};
  UniqueFd far_;
  PollingReceiver receiver_;
};

TEST_F(PollingReceive, TakesWhatIsThereAndWaitsForWhatIsNot) {
  for (const bool alone : {true, false}) {
    send('a');
    EXPECT_EQ(receive(alone).value(), 'a');
  }
  EXPECT_EQ(receive_after(milliseconds(30), 'b').value(), 'b');
  send('c');
  EXPECT_EQ(receive(true).value(), 'c') << "after a long wait";
}

TEST_F(PollingReceive, SleepsThroughALongWait) {
  timespec begin{};
  timespec end{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  EXPECT_EQ(receive_after(milliseconds(300), 'a').value(), 'a');
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  const auto used = std::chrono::seconds(end.tv_sec - begin.tv_sec) + nanoseconds(end.tv_nsec - begin.tv_nsec);
  EXPECT_LT(used, milliseconds(150));  // who polls takes all of it
}

TEST_F(PollingReceive, TellsOfTheEndAndOfASilentPeer) {
  const timeval soon{0, 20'000};
  ASSERT_EQ(::setsockopt(near_.fd(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), 0);
  EXPECT_EQ(receive(true).code(), EAGAIN);
  far_ = UniqueFd();
  EXPECT_EQ(receive(true).code(), ENOTCONN);
}

}  // namespace
}  // namespace brickfs::tcp
