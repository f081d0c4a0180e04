// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/own_scope.h"

#include <gtest/gtest.h>

namespace brickfs {
namespace {

TEST(OwnScope, KnowsTheNameOfAMountsUnit) {
  EXPECT_EQ(mount_unit("/home"), "home.mount");
  EXPECT_EQ(mount_unit("/srv/home"), "srv-home.mount");
  EXPECT_EQ(mount_unit("/"), "-.mount");
  EXPECT_EQ(mount_unit("//srv///home/"), "srv-home.mount");
  EXPECT_EQ(mount_unit("/a-b/c d"), "a\\x2db-c\\x20d.mount");
  EXPECT_EQ(mount_unit("/.hidden/.more"), "\\x2ehidden-.more.mount");
  EXPECT_EQ(mount_unit("/\xc3\xa4/a:b_c\\"), "\\xc3\\xa4-a:b_c\\x5c.mount");
}

}  // namespace
}  // namespace brickfs
