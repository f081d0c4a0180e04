// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/client_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace brickfs {
namespace {

// A process that has told its client id, and waits.
class Process {
 public:
  Process() {
    std::array<int, 2> pipe_ends{};
    EXPECT_EQ(pipe(pipe_ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const ClientId id = make_client_id();
      (void)!write(pipe_ends[1], &id, sizeof(id));
      pause();
      _exit(0);
    }
    EXPECT_EQ(read(pipe_ends[0], &id_, sizeof(id_)), ssize_t{sizeof(id_)});
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
  void kill_it() {
    kill(pid_, SIGKILL);
    siginfo_t ended{};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT), 0);
  }
  void reap() { EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_); }
  ClientId id() const { return id_; }

 private:
  pid_t pid_ = 0;
  ClientId id_{};
};

TEST(ClientIdentity, OfALivingProcessIsNotEnded) {
  EXPECT_NE(make_client_id(), ClientId{});
  EXPECT_FALSE(has_ended(make_client_id()));
  Process other;
  EXPECT_FALSE(has_ended(other.id()));
  other.kill_it();
  other.reap();
}

TEST(ClientIdentity, TellsTheProcessHereAndNowhereElse) {
  EXPECT_EQ(local_process(make_client_id()), getpid());
  Process other;
  EXPECT_NE(local_process(other.id()), getpid());
  EXPECT_TRUE(local_process(other.id()));
  other.kill_it();
  other.reap();
  const auto id = static_cast<uint64_t>(make_client_id());
  EXPECT_FALSE(local_process(ClientId{id ^ uint64_t{1} << 40})) << "another host, or another container, with this pid";
  EXPECT_FALSE(local_process(ClientId{id << 32 >> 32})) << "of a place that is not known";
}

TEST(ClientIdentity, OfAKilledOneItIsReapedOrNot) {
  Process other;
  other.kill_it();
  EXPECT_TRUE(has_ended(other.id())) << "a zombie";
  other.reap();
  EXPECT_TRUE(has_ended(other.id()));
}

TEST(ClientIdentity, OfAnotherMachineNothingIsKnown) {
  Process other;
  other.kill_it();
  other.reap();
  const auto id = static_cast<uint64_t>(other.id());
  EXPECT_FALSE(has_ended(ClientId{id ^ (uint64_t{1} << 40)}));
  EXPECT_FALSE(has_ended(ClientId{id & UINT32_MAX}));
  EXPECT_FALSE(has_ended(ClientId{}));
}

}  // namespace
}  // namespace brickfs
