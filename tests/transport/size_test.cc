// SPDX-License-Identifier: Apache-2.0
#include "transport/base/size.h"

#include <gtest/gtest.h>

#include <cerrno>

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

TEST(Size, MayHaveDecimalsBeforeItsLetter) {
  EXPECT_EQ(*parse_size("1.5G"), kGiB + kGiB / 2);
  EXPECT_EQ(*parse_size("0.25k"), 256U);
  EXPECT_EQ(*parse_size("1.000001K"), 1024U);
  EXPECT_EQ(*parse_size("16777215.999999T") >> 40, 16777215U);
  EXPECT_EQ(*parse_size("2M"), 2 * kMiB);
  EXPECT_EQ(*parse_size("1000"), 1000U);
  for (const char* const text : {"", "G", "1.5", "1.", "1.G", ".5G", "1.5.5G", "1,5G", "1.0000001G", "1.5GB", "-1G",
                                 "16777216T", "1. 5G", "1.-5G"}) {
    EXPECT_TRUE(parse_size(text).error().is(EINVAL)) << text;
  }
}

}  // namespace
}  // namespace brickfs
