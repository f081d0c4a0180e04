// SPDX-License-Identifier: Apache-2.0
// A brick has no volume that no source can name.
#include <gtest/gtest.h>

#include <string>

#include "server/service/brick_service.h"
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

}  // namespace
}  // namespace brickfs
