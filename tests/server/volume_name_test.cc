// SPDX-License-Identifier: Apache-2.0
// A brick has no volume that no source can name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "server/store/block_store.h"
#include "server/store/store_file.h"
#include "tests/support/brick_factory.h"
#include "transport/brick/block.h"
#include "transport/brick/source.h"

namespace brickfs {
namespace {

TEST(VolumeName, BricksTakeThoseThatSourcesTake) {
  for (const std::string name : {"a-B_3.x", "a!", "a\x9b", "gr\xc3\xbc\xc3\x9f", "a b", "a/b", "a:b", "a\x1b", ""}) {
    BrickConfig config;
    config.memory_bytes = kBlockBytes;
    config.volumes = {{.name = name, .quota_bytes = {}}};
    std::string why;
    const bool named = parse_source("tcp://host/" + name, &why).ok() && !name.empty();
    EXPECT_EQ(BrickService::open(config, &why).ok(), named) << name << why;
  }
}

TEST(VolumeName, NoNewOneIsADirectoryThatIsEverywhereOrLooksLikeAnOption) {
  BrickConfig config;
  config.memory_bytes = kBlockBytes;
  std::string why;
  const auto brick = std::move(*BrickService::open(config, &why));
  for (const std::string name : {".", "..", "-rf", "-"}) {
    EXPECT_EQ(brick->administer({.action = AdminAction::kCreate, .volume = name, .size_blocks = {}}).status, EINVAL)
        << name;
    BrickConfig with_it = config;
    with_it.volumes = {{.name = name, .quota_bytes = {}}};
    EXPECT_EQ(BrickService::open(with_it, &why).code(), EINVAL) << name;
    EXPECT_NE(why.find(name), std::string::npos) << why;
  }
  for (const std::string name : {"...", ".a", "a-", "_"})
    EXPECT_EQ(brick->administer({.action = AdminAction::kCreate, .volume = name, .size_blocks = {}}).status, 0) << name;
}

// As an older brickd made them.
TEST(VolumeName, OlderOnesOfSuchNamesAreUsedAndRemoved) {
  const testing::TemporaryDirectory directory;
  const std::vector<std::string> names = {".", "..", "-rf"};
  std::string why;
  {
    const auto store = std::move(*StoreFile::open(directory.path("store"), 8 * kBlockBytes, &why));
    for (uint32_t id = 0; id < names.size(); ++id) {
      StoreVolume record{};
      names[id].copy(record.name.data(), record.name.size() - 1);
      record.quota_blocks = kNoQuota;
      ASSERT_TRUE(store->write_volume(id, record).ok());
    }
    ASSERT_TRUE(store->sync().ok());
  }
  BrickConfig config;
  config.store_path = directory.path("store");
  config.volumes = {{.name = "-rf", .quota_bytes = {}}};  // named to that one
  const auto opened = BrickService::open(config, &why);
  ASSERT_TRUE(opened.ok()) << why;
  for (const std::string& name : names) {
    OpenRequest request;
    request.client = ClientId{1};
    request.volume = parse_source("tcp://host/" + name, &why)->volume;
    EXPECT_TRUE((*opened)
                    ->open_session(
                        request, [] {}, nullptr)
                    .ok())
        << name;
    EXPECT_EQ((*opened)
                  ->administer({.action = AdminAction::kRemove, .volume = name, .size_blocks = {}, .force = true})
                  .status,
              0)
        << name;
  }
}

}  // namespace
}  // namespace brickfs
