// SPDX-License-Identifier: Apache-2.0
#include "transport/base/size.h"

#include <gtest/gtest.h>

#include "transport/base/bytes.h"

namespace brickfs {
namespace {

TEST(Size, IsRoundedForPeople) {
  EXPECT_EQ(about_size(0), "0");
  EXPECT_EQ(about_size(1000), "1000");
  EXPECT_EQ(about_size(1536), "1.5K");
  EXPECT_EQ(about_size(2 * kMiB), "2M");
  EXPECT_EQ(about_size(24105 * kMiB), "23.5G");
  EXPECT_EQ(about_size(kGiB - 1), "1G");
  EXPECT_EQ(about_size(312 * kMiB + kMiB / 3), "312M");
  EXPECT_EQ(about_size(5000 * kGiB * 1024), "5000T");
}

}  // namespace
}  // namespace brickfs
