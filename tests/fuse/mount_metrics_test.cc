// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "fs/daemon/mount_monitor.h"

namespace brickfs {
namespace {

std::string text_of(const MountState& state) {
  Metrics metrics;
  collect(state, metrics);
  return metrics.text();
}

void expect_lines(const MountState& state, std::initializer_list<const char*> lines) {
  const std::string text = "\n" + text_of(state);
  for (const std::string line : lines) EXPECT_NE(text.find("\n" + line + "\n"), text.npos) << line << text;
}

OperationState three_writes() {
  OperationState write;
  write.name = "write";
  write.count = 3;
  write.failures = 1;
  write.bytes = 8192;
  write.seconds = 0.5;
  write.buckets = {0, 2, 1};
  return write;
}

TEST(MountMetrics, SayWhatIsMountedAndHowItIs) {
  MountState state;
  state.source = "tcp://host/home";
  state.mountpoint = "/home";
  state.version = "1";
  state.link = "waiting";
  state.link_text = "brick unreachable";
  state.has_rings = true;
  state.rings = 3;
  state.free_bytes = 4096;
  state.store_trouble = "its disk is full";
  state.uncommitted_operations = 12;
  expect_lines(state, {
                          R"(brickfs_mount_info{version="1",source="tcp://host/home",mountpoint="/home",)"
                          R"(requests="dev_fuse",writeback="off",rings="on"} 1)",
                          R"(brickfs_rings 3)",
                          R"(brickfs_link_state{state="waiting"} 1)",
                          R"(brickfs_link_state{state="connected"} 0)",
                          R"(brickfs_link_redirected 0)",
                          R"(brickfs_store_healthy 0)",
                          R"(brickfs_free_bytes 4096)",
                          R"(brickfs_uncommitted_operations 12)",
                      });
}

TEST(MountMetrics, SayWhatEachKindOfOperationTook) {
  MountState state;
  state.operations = {three_writes()};
  state.volume = {three_writes()};
  state.volume[0].name = "commit";
  expect_lines(state, {
                          R"(brickfs_operation_duration_seconds_count{operation="write"} 3)",
                          R"(brickfs_operation_duration_seconds_sum{operation="write"} 0.5)",
                          R"(brickfs_operation_duration_seconds_bucket{operation="write",le="2e-06"} 2)",
                          R"(brickfs_operation_failures_total{operation="write"} 1)",
                          R"(brickfs_operation_bytes_total{operation="write"} 8192)",
                          R"(brickfs_volume_call_duration_seconds_count{call="commit"} 3)",
                      });
}

TEST(MountMetrics, SayWhoSharesIt) {
  MountState state;
  state.sharing = "coordinator";
  state.member_count = 2;
  state.members_expelled = 1;
  state.leases = 11;
  state.recalls = 5;
  state.recalls_lapsed = 4;
  state.members = {{.name = "host", .silent_seconds = 0.5, .calls = 9, .seconds = 0.25, .bytes = 4096}};
  state.calls = {three_writes()};
  expect_lines(state, {
                          R"(brickfs_sharing{role="coordinator"} 1)",
                          R"(brickfs_members 2)",
                          R"(brickfs_members_expelled_total 1)",
                          R"(brickfs_leases 11)",
                          R"(brickfs_recalls_total 5)",
                          R"(brickfs_recalls_lapsed_total 4)",
                          R"(brickfs_member_calls_total{member="host"} 9)",
                          R"(brickfs_member_busy_seconds_total{member="host"} 0.25)",
                          R"(brickfs_member_bytes_total{member="host"} 4096)",
                          R"(brickfs_member_silent_seconds{member="host"} 0.5)",
                          R"(brickfs_member_call_duration_seconds_count{call="write"} 3)",
                          R"(brickfs_member_call_failures_total{call="write"} 1)",
                          R"(brickfs_member_call_bytes_total{call="write"} 8192)",
                      });
}

TEST(MountMetrics, SayWhichCopiesAreThere) {
  MountState state;
  state.copies_wanted = 2;
  state.copies = {{.place = 0, .source = "tcp://a/home", .state = "in sync"},
                  {.place = 0, .source = "tcp://b/home", .state = "in sync"},
                  {.place = 1, .source = "tcp://b/home.2", .state = "in sync"},
                  {.place = 1, .source = "tcp://a/home.2", .state = "stale"},
                  {.place = 2, .source = "tcp://a/home.3", .state = "in sync"},
                  {.place = 2, .source = "tcp://b/home.3", .state = "in sync", .away = true}};
  state.etcd_trouble = "nobody listens";
  state.etcd_trouble_for_seconds = 7;
  expect_lines(state, {
                          R"(brickfs_copies_wanted 2)",
                          R"(brickfs_copies_in_sync{place="0"} 2)",
                          R"(brickfs_copies_in_sync{place="1"} 1)",
                          R"(brickfs_copies_in_sync{place="2"} 1)",
                          R"(brickfs_etcd_up 0)",
                          R"(brickfs_etcd_down_seconds 7)",
                      });
}

TEST(MountMetrics, SayNothingOfWhatThereIsNone) {
  const std::string text = text_of({});
  EXPECT_EQ(text.find("brickfs_metadata_memory_limit_bytes"), text.npos);
  EXPECT_EQ(text.find("brickfs_checkpoint_age_seconds"), text.npos) << "it is not known";
}

}  // namespace
}  // namespace brickfs
