// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/brick_stats.h"

#include <gtest/gtest.h>

namespace brickfs {
namespace {

ClientStatus client(uint64_t number, uint64_t calls, uint64_t written_bytes) {
  ClientStatus status;
  status.number = number;
  status.volume = "home";
  status.holder.name = "host pid " + std::to_string(number);
  status.calls = calls;
  status.written_bytes = written_bytes;
  return status;
}

TEST(BrickStats, HasWhatClientsDidInBetween) {
  const std::vector<ClientStatus> before{client(1, 10, 1'000), client(2, 5, 0)};
  const auto since = clients_since(before, {client(2, 8, 500), client(3, 4, 70)});
  ASSERT_EQ(since.size(), 2u) << "who has gone is not shown";
  EXPECT_EQ(since[0].calls, 3u);
  EXPECT_EQ(since[0].written_bytes, 500u);
  EXPECT_EQ(since[1].calls, 4u) << "who has come since began with nothing";
  EXPECT_EQ(clients_since(before, {client(1, 2, 20)}).front().calls, 2u) << "a brick that restarted counts anew";
}

TEST(BrickStats, SumsClientsOfAVolume) {
  BrickStats::Sample before;
  VolumeStatus volume;
  volume.name = "home";
  volume.used_blocks = 3;
  before.volumes = {volume};
  before.clients = {client(1, 10, 1'000)};
  BrickStats::Sample now = before;
  now.clients = {client(1, 14, 3'000), client(2, 6, 500)};
  now.at = before.at + std::chrono::seconds(2);
  const BrickStats stats("tcp://host", SecretFile());
  const Json json = stats.json(&before, now);
  EXPECT_EQ(json["seconds"], 2.0);
  EXPECT_EQ(json["volumes"][0]["calls"], 10);
  EXPECT_EQ(json["volumes"][0]["written_bytes"], 2'500);
  const std::string text = stats.text(&before, now, SortBy::kTime, true);
  EXPECT_LT(text.find("host pid 1"), text.find("host pid 2")) << "most traffic first";
  const std::string by_calls = stats.text(&before, now, SortBy::kCount, true);
  EXPECT_LT(by_calls.find("host pid 2"), by_calls.find("host pid 1"));
}

}  // namespace
}  // namespace brickfs
