// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/mount_state.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <chrono>
#include <vector>

#include "fs/daemon/mount_monitor.h"
#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

using std::chrono::seconds;

TEST(MountState, IsReadAsItWasWritten) {
  MountState state;
  state.source = "tcp://host/a volume with \"quotes\" and \xff";
  state.link = "waiting";
  state.link_for_seconds = 12.5;
  state.free_bytes = UINT64_MAX;
  state.soft = true;
  state.operations.push_back({.name = "read", .count = 7, .buckets = {1, 2, 4}});
  const std::string packet = encode(state);
  EXPECT_EQ(packet[0], kStateBegins);
  const auto read = decode_mount_state(packet);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, "tcp://host/a volume with \"quotes\" and \xef\xbf\xbd");
  EXPECT_EQ(read->link, "waiting");
  EXPECT_EQ(read->link_for_seconds, 12.5);
  EXPECT_EQ(read->free_bytes, UINT64_MAX);
  EXPECT_TRUE(read->soft);
  ASSERT_EQ(read->operations.size(), 1u);
  EXPECT_EQ(read->operations[0].name, "read");
  EXPECT_EQ(read->operations[0].buckets, (std::vector<uint64_t>{1, 2, 4}));
}

TEST(MountState, OfAnotherVersionIsReadAsFarAsItGoes) {
  const auto read = decode_mount_state(R"({"link":"silent","of_tomorrow":[1,2]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->link, "silent");
  EXPECT_EQ(read->pid, 0);
}

TEST(MountState, NonsenseIsNone) {
  for (const char* packet : {"", "{", "[]", "17", "0 1 0 4711 300 99\n\n\n\n", R"({"pid":"one"})", R"({"link":17})"})
    EXPECT_FALSE(decode_mount_state(packet)) << packet;
}

TEST(MountMonitor, TellsWhatTheFilesystemIsLike) {
  MountedVolume volume;
  MountState fixed;
  fixed.source = "memory:1G";
  const auto operations = std::make_shared<OperationCounters>();
  operations->count(FUSE_WRITE, 0, std::chrono::microseconds(3), 4096);
  MountMonitor monitor(*volume, operations, nullptr, fixed, "0:999999");
  const auto now = MountMonitor::Clock::now() + seconds(7);
  MountState state = monitor.state(now);
  EXPECT_EQ(state.source, "memory:1G");
  EXPECT_EQ(state.link, "connected");
  EXPECT_EQ(state.link_text, "embedded");
  EXPECT_GE(state.link_for_seconds, 7);
  EXPECT_EQ(state.link_changes, 0u);
  EXPECT_FALSE(state.read_only);
  EXPECT_EQ(state.inodes, 1u);
  EXPECT_GT(state.free_bytes, 0u);
  EXPECT_LE(state.free_bytes, state.capacity_bytes);
  ASSERT_EQ(state.operations.size(), 1u);
  EXPECT_EQ(state.operations[0].name, "write");
  EXPECT_EQ(state.operations[0].bytes, 4096u);
  EXPECT_EQ(state.operations[0].buckets[2], 1u);
  ASSERT_EQ(state.volume.size(), kVolumeCalls);
  EXPECT_GT(state.volume[static_cast<size_t>(VolumeCall::kWrite)].bytes, 0u) << "the file system was made";
  ASSERT_TRUE(volume->create(kRootIno, "file", 0644, root_caller()).ok());
  state = monitor.state(now);
  EXPECT_EQ(state.inodes, 2u);
}

}  // namespace
}  // namespace brickfs
