// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "fs/mount/status/mount_state.h"

namespace brickfs {
namespace {

TEST(UmountReport, IsReadAsItWasWritten) {
  const UmountReport report{.link = LinkState::Kind::kWaiting,
                            .serving = true,
                            .ended = true,
                            .pid = 4711,
                            .linger_seconds = 300,
                            .progress = 99,
                            .uncommitted_operations = 12,
                            .uncommitted_bytes = 3'400'000,
                            .uncommitted = "12 operations (3.4 MiB)",
                            .text = "brick unreachable: Connection refused",
                            .options = "rw hard"};
  const auto read = decode_umount_report(encode(report));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->link, report.link);
  EXPECT_TRUE(read->serving);
  EXPECT_TRUE(read->ended);
  EXPECT_EQ(read->pid, 4711);
  EXPECT_EQ(read->linger_seconds, 300u);
  EXPECT_EQ(read->progress, 99u);
  EXPECT_EQ(read->uncommitted_operations, 12u);
  EXPECT_EQ(read->uncommitted_bytes, 3'400'000u);
  EXPECT_EQ(read->uncommitted, report.uncommitted);
  EXPECT_EQ(read->text, report.text);
  EXPECT_EQ(read->options, report.options);
  const auto older = decode_umount_report("0 0 0 4711 300 99\nmuch\ntcp\nrw\n");
  ASSERT_TRUE(older) << "of a brickfs that does not count it";
  EXPECT_EQ(older->uncommitted_bytes, 0u);
  EXPECT_EQ(older->uncommitted, "much");
  const auto empty = decode_umount_report(encode(UmountReport{}));
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->serving);
  EXPECT_EQ(empty->uncommitted, "");
  EXPECT_EQ(empty->text, "");
}

TEST(UmountReport, TextsAreOneLineEachAndBounded) {
  UmountReport report;
  report.uncommitted = "two\nlines";
  report.text = std::string(100'000, 'x');
  const std::string packet = encode(report);
  EXPECT_LE(packet.size(), kUmountPacketBytes);
  const auto read = decode_umount_report(packet);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->uncommitted, "two lines");
}

TEST(UmountReport, GarbageIsNoReport) {
  for (const char* const packet : {"", "\n\n\n", "9 0 0 1 1 1\n\n\n\n", "-1 0 0 1 1 1\n\n\n\n", "0 0 0 1 1\n\n\n\n",
                                   "0 0 0 1 1 1", "0 0 0 1 1 1\nonly", "words"}) {
    EXPECT_FALSE(decode_umount_report(packet)) << packet;
  }
}

}  // namespace
}  // namespace brickfs
