// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fs/fuse/cache/writeback_cache.h"

namespace brickfs {
namespace {

class DirtyLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "dirty-limit-XXXXXX";
    directory_ = mkdtemp(name.data());
    std::filesystem::create_directory(directory_ + "/0:39");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void set(const char* name, const char* value) const { std::ofstream(directory_ + "/0:39/" + name) << value << "\n"; }

  std::string directory_;
};

TEST_F(DirtyLimit, IsWhatTheKernelHoldsItselfTo) {
  EXPECT_FALSE(tells_dirty_limit(directory_));
  EXPECT_FALSE(read_dirty_limit("0:39", directory_));
  set("max_bytes", "42040688");
  EXPECT_TRUE(tells_dirty_limit(directory_));
  set("strict_limit", "0");
  EXPECT_FALSE(read_dirty_limit("0:39", directory_)) << "it may go beyond";
  set("strict_limit", "1");
  EXPECT_EQ(read_dirty_limit("0:39", directory_), 42040688u);
  EXPECT_FALSE(read_dirty_limit("0:40", directory_));
  EXPECT_FALSE(tells_dirty_limit(directory_ + "/none"));
}

TEST_F(DirtyLimit, IsSet) {
  set("strict_limit", "1");
  set("max_bytes", "1000000");
  EXPECT_EQ(set_dirty_limit("0:39", 500000, directory_), 500000u);
  EXPECT_EQ(read_dirty_limit("0:39", directory_), 500000u);
  EXPECT_FALSE(set_dirty_limit("0:40", 500000, directory_));
}

}  // namespace
}  // namespace brickfs
