// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fs/mount/mount_program.h"

namespace brickfs {
namespace {

using Words = std::vector<std::string>;

MountCall parsed(const Words& words) {
  std::string why;
  const auto call = parse_mount_call(words, &why);
  EXPECT_TRUE(call.ok()) << why;
  return call.ok() ? *call : MountCall{};
}

TEST(MountCall, IsToldByTheNameOfTheProgram) {
  EXPECT_TRUE(is_mount_call("/sbin/mount.brickfs"));
  EXPECT_TRUE(is_mount_call("mount.brickfs"));
  EXPECT_FALSE(is_mount_call("/usr/bin/brickfs"));
  EXPECT_FALSE(is_mount_call("/srv/mount.brickfs/brickfs"));
}

TEST(MountCall, OptionsArePassedOnAndWhatMountAloneKnowsIsNot) {
  const MountCall call = parsed({"tcp://host/home", "/home", "-s", "-n", "-v", "-t", "brickfs", "-o", "rw,durable"});
  EXPECT_EQ(call.words, (Words{"tcp://host/home", "/home", "-o", "rw,durable"}));
  EXPECT_FALSE(call.fake);
}

TEST(MountCall, FakeIsNotForeground) {
  const MountCall call = parsed({"tcp://host/home", "/home", "-f", "-o", "rw"});
  EXPECT_EQ(call.words, (Words{"tcp://host/home", "/home", "-o", "rw"}));
  EXPECT_TRUE(call.fake);
}

TEST(MountCall, AnotherNamespaceIsRefused) {
  std::string why;
  EXPECT_FALSE(parse_mount_call({"tcp://host/home", "/home", "-N", "/proc/1/ns/mnt"}, &why).ok());
  EXPECT_NE(why.find("nsenter"), std::string::npos);
}

TEST(MountCall, ExitCodesAreThoseOfMount) {
  EXPECT_EQ(mount_exit_code(0), 0);
  EXPECT_EQ(mount_exit_code(1), 32);
  EXPECT_EQ(mount_exit_code(2), 1);
}

}  // namespace
}  // namespace brickfs
