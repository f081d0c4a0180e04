// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/trouble.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/base/bytes.h"
#include "transport/brick/refusal.h"

namespace brickfs {
namespace {

MountState well() {
  MountState state;
  state.link = "connected";
  state.link_text = "tcp";
  state.link_for_seconds = 3600;
  state.capacity_bytes = 10 * kGiB;
  state.free_bytes = 5 * kGiB;
  state.inodes = 10;
  return state;
}

// The one trouble there is, as "severity about: what".
std::string only(const std::vector<Trouble>& troubles) {
  if (troubles.size() != 1) return std::to_string(troubles.size()) + " troubles";
  EXPECT_NE(troubles[0].advice, "");
  return std::string(name_of(troubles[0].severity)) + " " + troubles[0].about + ": " + troubles[0].what;
}

TEST(Troubles, AWellMountHasNone) {
  EXPECT_TRUE(troubles_of(well()).empty());
  EXPECT_TRUE(troubles_of_link_text("tcp").empty());
  EXPECT_TRUE(troubles_of_link_text("rdma (mlx5_0, mlx5_1)").empty());
}

TEST(Troubles, CopiesThatAreMissing) {
  MountState state = well();
  state.copies_wanted = 2;
  state.copies = {{.place = 0, .source = "tcp://a/home", .state = "in sync"},
                  {.place = 0, .source = "tcp://b/home", .state = "in sync"},
                  {.place = 1, .source = "tcp://b/home.2", .state = "in sync"},
                  {.place = 1, .source = "tcp://a/home.2", .state = "in sync"}};
  EXPECT_TRUE(troubles_of(state).empty());
  state.copies[3].state = "stale";
  EXPECT_EQ(only(troubles_of(state)),
            "warning copies: tcp://a/home.2: it is left out (1 of 2 copies of place 1 can be read)");
  state.copies[3].state = "syncing";
  state.copies[3].copied_blocks = 30;
  state.copies[3].total_blocks = 120;
  EXPECT_EQ(only(troubles_of(state)),
            "warning copies: tcp://a/home.2: it is brought up to date, 25 % (1 of 2 copies of place 1 can be read)");
  state.copies[3].leaving = true;
  EXPECT_TRUE(troubles_of(state).empty()) << "it is to go";
  state.copies[3].leaving = false;
  state.copies.push_back({.place = 1, .source = "tcp://c/home", .state = "in sync"});
  EXPECT_TRUE(troubles_of(state).empty()) << "there are as many as are wanted";
}

TEST(Troubles, ABrickThatIsAway) {
  MountState state = well();
  state.link = "waiting";
  state.link_text = "brick unreachable: connect: Connection refused; operations wait";
  state.link_for_seconds = 90;
  EXPECT_EQ(only(troubles_of(state)),
            "broken link: brick unreachable: connect: Connection refused; operations wait, for 90 s");
  state.link = "silent";
  state.link_text = "tcp: the brick has not answered for 4.0 s";
  EXPECT_EQ(only(troubles_of(state)), "broken link: tcp: the brick has not answered for 4.0 s");
  state.link = "failed";
  state.link_text = "volume 'home' was taken over by another client";
  EXPECT_EQ(only(troubles_of(state)), "broken link: volume 'home' was taken over by another client (for 90 s)");
}

TEST(Troubles, ALinkByTheWayAroundOrThatComesAndGoes) {
  MountState state = well();
  state.link_text = "tcp, redirected: rdma failed: no answer: Connection timed out";
  EXPECT_EQ(only(troubles_of(state)), "warning link: " + state.link_text);
  const std::string lost = troubles_of(state)[0].advice;
  state.link_text =
      "tcp, redirected: rdma failed: memory cannot be registered with the RDMA device: Cannot allocate memory";
  EXPECT_EQ(only(troubles_of(state)), "warning link: " + state.link_text);
  EXPECT_NE(troubles_of(state)[0].advice, lost);
  state = well();
  state.link_changes = 6;
  EXPECT_TRUE(troubles_of(state).empty());  // an hour ago
  state.link_for_seconds = 5;
  EXPECT_EQ(only(troubles_of(state)),
            "warning link: it was lost 3 times since the mount, the last time it came back 5 s ago");
}

TEST(Troubles, AStoreThatIsFullOrFailed) {
  MountState state = well();
  state.store_trouble = "its disk is full";
  EXPECT_EQ(only(troubles_of(state)), "broken store: the brick's store: its disk is full");
  const std::string full = troubles_of(state)[0].advice;
  state.store_trouble = "its disk failed: nothing is committed any more";
  EXPECT_EQ(only(troubles_of(state)),
            "broken store: the brick's store: its disk failed: nothing is committed any more");
  EXPECT_NE(troubles_of(state)[0].advice, full);
}

TEST(Troubles, CommitsThatDoNotGetOnUnlessTheLinkIsWhy) {
  MountState state = well();
  state.uncommitted_operations = 12;
  state.uncommitted_bytes = 3 * kMiB;
  state.uncommitted_for_seconds = 1;
  EXPECT_TRUE(troubles_of(state).empty());
  state.uncommitted_for_seconds = 30;
  EXPECT_EQ(only(troubles_of(state)),
            "warning commit: nothing was committed for 30 s: 12 operations, 3M wait for the brick's store");
  state.link = "silent";
  EXPECT_EQ(troubles_of(state).size(), 1u);
  EXPECT_EQ(troubles_of(state)[0].about, "link");
}

TEST(Troubles, LittleRoom) {
  MountState state = well();
  state.free_bytes = 60 * kMiB;
  EXPECT_EQ(only(troubles_of(state)), "warning space: the volume is nearly full: 60M of 10G are free");
  state.free_bytes = 0;
  EXPECT_EQ(only(troubles_of(state)), "broken space: the volume is full: writes get ENOSPC");
  state.source = "tcp://b/home";
  EXPECT_NE(troubles_of(state).front().advice.find("brickctl volume resize tcp://b:20470 home:SIZE"), std::string::npos)
      << troubles_of(state).front().advice;
  state.source = "memory:64M";
  EXPECT_NE(troubles_of(state).front().advice.find("a larger SIZE"), std::string::npos);
  state.source = "tcp://a+b/home";
  EXPECT_NE(troubles_of(state).front().advice.find("-o grow"), std::string::npos);
  state.source = "etcd://e/home";
  state.copies_wanted = 2;
  EXPECT_NE(troubles_of(state).front().advice.find("brickctl set add etcd://e/home BRICK"), std::string::npos);
  state = well();
  state.capacity_bytes = 100 * kMiB;  // a small volume is not nearly full all its life
  state.free_bytes = 50 * kMiB;
  EXPECT_TRUE(troubles_of(state).empty());
  state.free_bytes = 1 * kMiB;
  EXPECT_EQ(troubles_of(state).size(), 1u);
}

TEST(Troubles, MemoryForNames) {
  MountState state = well();
  state.metadata_bytes = 95 * kMiB;
  EXPECT_TRUE(troubles_of(state).empty());  // without a bound
  state.max_metadata_bytes = 100 * kMiB;
  EXPECT_EQ(only(troubles_of(state)),
            "warning memory: inodes and names take 95M of the 100M that max_metadata= allows");
  state.metadata_bytes = 100 * kMiB;
  EXPECT_EQ(only(troubles_of(state)),
            "broken memory: inodes and names take 100M of the 100M that max_metadata= allows: new names get ENOSPC");
}

TEST(Troubles, TheWorstComesFirstAndNotesAreNotes) {
  MountState state = well();
  state.io_uring_obstacle = "this kernel's FUSE has no io_uring (Linux 6.14 has)";
  state.writeback_obstacle = "a read-only mount";
  state.request_limit_seconds = 60;
  state.read_only_reason = "the file system is damaged, it is mounted read-only: ...";
  const auto troubles = troubles_of(state);
  ASSERT_EQ(troubles.size(), 4u);
  EXPECT_EQ(troubles[0].about, "mount");
  EXPECT_EQ(troubles[1].severity, Severity::kWarning);
  EXPECT_EQ(troubles[2].severity, Severity::kNote);
  EXPECT_EQ(troubles[2].advice, state.io_uring_obstacle);
  state.soft = true;  // its operations fail anyway
  EXPECT_EQ(troubles_of(state).size(), 3u);
}

TEST(Troubles, AMemberIsToldOfItsCoordinatorAndNotOfBricks) {
  MountState state = well();
  state.sharing = "member";
  EXPECT_TRUE(troubles_of(state).empty());
  state.link_text = "the coordinator at 10.0.0.1:4711 is away: connection refused";
  for (const char* const link : {"silent", "waiting"}) {
    state.link = link;
    EXPECT_EQ(only(troubles_of(state)), "broken coordinator: " + state.link_text + ", for 60 min");
  }
}

TEST(Troubles, WhoIsRefusedIsToldTheCure) {
  MountState state = well();
  state.link = "waiting";
  const auto advice_of = [&state](const std::string& why) {
    state.link_text = std::string(kRefusesClient) + why + "; it is tried again";
    EXPECT_EQ(only(troubles_of(state)), "broken link: " + state.link_text + ", for 60 min");
    return troubles_of(state).front().advice;
  };
  EXPECT_NE(advice_of("the secret differs").find("-o secret=PATH"), std::string::npos);
  state.secret_file = "/etc/brickfs/secret";
  EXPECT_NE(advice_of("the secret differs").find("/etc/brickfs/secret needs the line"), std::string::npos);
  EXPECT_NE(advice_of("no such volume").find("another store"), std::string::npos);
  EXPECT_NE(advice_of("what answers there is not a brick").find("another program"), std::string::npos);
  EXPECT_NE(advice_of("what is not encrypted is refused there: tls=on, with the secret").find("brickd --tls on"),
            std::string::npos);
  EXPECT_NE(advice_of("what answers there does not know the secret").find("something else"), std::string::npos);
}

TEST(Troubles, TheStoreOfOneCopyEndsNothingWhileThereIsAnother) {
  MountState state = well();
  state.store_trouble = "its disk is full";
  state.copies_wanted = 2;
  state.copies = {{.place = 0, .source = "tcp://a/home", .state = "in sync"},
                  {.place = 0, .source = "tcp://b/home", .state = "in sync"}};
  EXPECT_EQ(only(troubles_of(state)), "warning store: the brick's store: its disk is full");
  state.copies[1].state = "stale";
  EXPECT_EQ(troubles_of(state).front().severity, Severity::kBroken);
}

TEST(Troubles, OfWhatTheAttributeSays) {
  EXPECT_EQ(only(troubles_of_link_text("tcp; store: its disk is full")),
            "broken store: the brick's store: its disk is full");
  EXPECT_EQ(only(troubles_of_link_text("silent: tcp: the brick has not answered for 2.0 s")),
            "broken link: tcp: the brick has not answered for 2.0 s");
  EXPECT_EQ(
      only(troubles_of_link_text("waiting: brick unreachable: Connection timed out; operations wait")).substr(0, 12),
      "broken link:");
}

TEST(Troubles, OfABrick) {
  BrickStat stat;
  stat.medium = "memory";
  stat.volume_capacity_blocks = 100;
  stat.allocatable_blocks = 10;
  EXPECT_TRUE(troubles_of(stat, "tcp://b:20470/home").empty());
  stat.medium = "memory with store /store; too few huge pages for devices";
  EXPECT_EQ(only(troubles_of(stat, "tcp://b:20470/home")),
            "note memory: the brick's memory is of normal pages: too few huge ones were free");
  stat.medium += "; its disk is full";
  EXPECT_EQ(troubles_of(stat, "tcp://b:20470/home").size(), 2u);
  EXPECT_EQ(troubles_of(stat, "tcp://b:20470/home")[0].what, "the brick's store: its disk is full");
  stat.medium = "memory";
  stat.allocatable_blocks = 0;
  stat.volume_used_blocks = 100;
  EXPECT_EQ(only(troubles_of(stat, "tcp://b:20470/home")), "warning space: the volume has allocated all of its 200M");
  stat.volume_used_blocks = 40;
  stat.brick_used_blocks = stat.brick_capacity_blocks = 1024;
  EXPECT_EQ(only(troubles_of(stat, "tcp://b:20470/home")),
            "warning space: the brick has no block left: 2G of 2G are in use");
  stat.allocatable_blocks = 10;
  stat.holder = Holder{};
  stat.holder->name = "there (pid 7)";
  EXPECT_EQ(only(troubles_of(stat, "tcp://b:20470/home")).substr(0, 34), "note volume: held by there (pid 7)");
  stat.holder_away = true;
  EXPECT_EQ(troubles_of(stat, "tcp://b:20470/home")[0].severity, Severity::kWarning);
  stat.holder->kept_for = std::chrono::milliseconds(3500);
  EXPECT_NE(only(troubles_of(stat, "tcp://b:20470/home")).find("kept for it for 4 s more"), std::string::npos);
}

TEST(Troubles, EachRefusalHasItsAdvice) {
  const std::string otherwise = trouble_of_refusal(Error(EIO, ""), "x").advice;
  for (const int code : {EACCES, EKEYREJECTED, ENOENT, ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT, EPROTO})
    EXPECT_NE(trouble_of_refusal(Error(code, ""), "x").advice, otherwise) << code;
}

}  // namespace
}  // namespace brickfs
