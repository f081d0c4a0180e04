// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_options.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace brickfs {
namespace {

MountCommand parsed(std::string_view list) {
  MountCommand command;
  std::string why;
  EXPECT_TRUE(parse_mount_options(list, command, &why).ok()) << list << ": " << why;
  return command;
}

bool refuses(std::string_view list) {
  MountCommand command;
  std::string why;
  return parse_mount_options(list, command, &why).code() == EINVAL && !why.empty();
}

TEST(MountOptions, ThoseOfEveryFileSystemAreTaken) {
  for (const char* const list :
       {"async,atime,noatime,auto,noauto,defaults,dev,nodev,diratime,nodiratime,dirsync,exec,noexec,group,iversion",
        "noiversion,mand,nomand,_netdev,nofail,relatime,norelatime,strictatime,nostrictatime,lazytime,nolazytime",
        "suid,nosuid,silent,loud,owner,noowner,nogroup,nousers,remount,ro,rw,sync,user,nouser,users,nosymfollow,"
        "symfollow",
        "x-systemd.automount,X-mount.mkdir=0755,comment=two words,user=somebody,helper=fuse,uhelper=fuse.brickfs",
        "context=u:o:t:s0,fscontext=u:o:t:s0,defcontext=u:o:t:s0,rootcontext=u:o:t:s0"}) {
    parsed(list);
  }
  EXPECT_TRUE(refuses("readonly"));
  EXPECT_TRUE(refuses("contexts=u"));
}

TEST(MountOptions, WhatIsMountedNowhereTakesNoOptionsOfMounts) {
  const auto refused = [](std::string_view list) {
    MountCommand command = parsed(list);
    command.mountpoint = kNoMountpoint;
    std::string why;
    return check_mounts_nothing(command, &why).code() == EINVAL && !why.empty();
  };
  EXPECT_FALSE(refused("shared"));
  EXPECT_FALSE(refused("share,durable,soft,timeo=5,linger=9,bg,listen=10.0.0.1,max_metadata=1G,_netdev,nofail,steal"));
  EXPECT_TRUE(refused("rw")) << "nobody would have it";
  for (const char* const list : {"ro", "ring=on", "ring=off", "writeback=on", "io_uring=auto", "allow_other", "nodev",
                                 "noatime", "nosymfollow", "sync", "fsname=x", "remount"})
    EXPECT_TRUE(refused(std::string("shared,") + list)) << list;
}

TEST(MountOptions, RingsAreOnOrOff) {
  EXPECT_FALSE(parsed("rw").shm_queues);
  EXPECT_TRUE(parsed("ring=on").shm_queues);
  EXPECT_FALSE(parsed("ring=on,ring=off").shm_queues);
  EXPECT_TRUE(refuses("ring=auto"));
  EXPECT_TRUE(refuses("ring"));
}

// mount(8) takes `shared` for itself.
TEST(MountOptions, SharedHasTwoNames) {
  EXPECT_FALSE(parsed("rw").shared);
  for (const char* const list : {"shared", "share", "x-brickfs.shared"}) {
    const MountCommand command = parsed(list);
    EXPECT_TRUE(command.shared) << list;
    const std::string common = describe_common_options(command, false, false);
    EXPECT_FALSE(not_in_force(command, common)) << common;
    EXPECT_EQ(options_to_show(common).front(), "x-brickfs.shared");
    EXPECT_EQ(not_in_force(command, describe_common_options(parsed("rw"), false, false)), "shared");
  }
}

TEST(MountOptions, AreForTheKernelOrNot) {
  const MountCommand command = parsed("nosymfollow,nodev,lazytime,mand,sync,uhelper=fuse.brickfs,bg,retry=5");
  EXPECT_EQ(command.kernel_options, (std::vector<std::string>{"nodev", "sync"}));
  EXPECT_EQ(command.mount_flags, (std::vector<std::string>{"nosymfollow", "nodev"}));
  EXPECT_TRUE(command.background);
  EXPECT_EQ(command.retry, std::chrono::minutes(5));
}

TEST(MountOptions, ThoseOfMountAndSystemdAreKeptForThem) {
  const MountCommand command =
      parsed("nodev,_netdev,relatime,user,x-systemd.automount,uhelper=other,nofail,bg,x-a=\"b,c\"");
  EXPECT_EQ(command.of_user_space,
            (std::vector<std::string>{"_netdev", "user", "x-systemd.automount", "nofail", "x-a=\"b,c\""}));
}

TEST(MountOptions, OursAreShownBesideThoseOfTheKernelAndMeanTheSameWhenTheyComeBack) {
  const MountCommand command = parsed("soft,timeo=7,nodev,max_metadata=64M,metrics=127.0.0.1:9100,sync");
  const auto shown = options_to_show(describe_common_options(command, true, false));
  EXPECT_EQ(shown, (std::vector<std::string>{"x-brickfs.durable", "x-brickfs.soft", "x-brickfs.timeo=7",
                                             "x-brickfs.linger=300", "x-brickfs.writeback=off",
                                             "x-brickfs.io_uring=off", "x-brickfs.ring=off", "x-brickfs.tls=off",
                                             "x-brickfs.metrics=127.0.0.1:9100", "x-brickfs.max_metadata=64M"}));
  const MountCommand again = parsed(fmt::format("{}", fmt::join(shown, ",")));
  EXPECT_TRUE(again.soft && again.require_durable);
  EXPECT_EQ(again.soft_timeout, std::chrono::seconds(7));
  EXPECT_TRUE(again.of_user_space.empty());
  EXPECT_FALSE(parsed("x-brickfs.soft,hard").soft);
  EXPECT_TRUE(refuses("x-brickfs.nonsense"));
}

TEST(MountOptions, ALabelMayHaveCommas) {
  const MountCommand command = parsed("nodev,context=\"u:o:t:s0:c127,c456\",noexec");
  const auto& options = command.kernel_options;
  EXPECT_EQ(options.front(), "nodev");
  EXPECT_EQ(options.back(), "noexec");
  // Passed on whole, quotes and all, as the kernel takes it; where there is no SELinux it is left out, as mount(8)
  // does.
  const bool passed = std::find(options.begin(), options.end(), "context=\"u:o:t:s0:c127,c456\"") != options.end();
  EXPECT_EQ(passed, access("/sys/fs/selinux", F_OK) == 0);
  EXPECT_EQ(options.size(), passed ? 3u : 2u);
}

TEST(MountOptions, TheLastOneWins) {
  EXPECT_FALSE(parsed("allow_other,noallow_other").allow_other.value());
  EXPECT_TRUE(parsed("noallow_other,allow_other").allow_other.value());
  EXPECT_FALSE(parsed("nodev").allow_other.has_value());
  EXPECT_FALSE(parsed("bg,fg").background);
}

TEST(MountOptions, NumbersAreBounded) {
  EXPECT_EQ(parsed("retry=0").retry, std::chrono::minutes(0));
  for (const char* const list : {"retry=", "retry=-1", "retry=1h", "retry=99999999999", "timeo=0", "linger=soon"}) {
    EXPECT_TRUE(refuses(list)) << list;
  }
}

TEST(MountOptions, EtcdHasItsOwn) {
  MountCommand command;
  std::string why;
  ASSERT_TRUE(
      parse_mount_options("etcd_ca=/ca,etcd_cert=/c,etcd_key=/k,etcd_user=u,etcd_password=/p", command, &why).ok())
      << why;
  EXPECT_EQ(command.etcd, (EtcdOptions{"/ca", "/c", "/k", "u", "/p"}));
  for (const char* bad : {"etcd_ca=", "etcd_ca", "etcd_host=a", "etcd_=a"})
    EXPECT_EQ(parse_mount_options(bad, command, &why).code(), EINVAL) << bad;
}

}  // namespace
}  // namespace brickfs
