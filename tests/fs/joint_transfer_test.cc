// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/joint_transfer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string_view>
#include <vector>

#include "tests/support/mounted_volume.h"
#include "tests/support/restarting_brick.h"

namespace brickfs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kUnit = 4096;

Bytes bytes_of(char value, size_t length = kUnit) { return Bytes(length, static_cast<std::byte>(value)); }
LocalSlice slice_of(Bytes& bytes) { return {bytes.data(), static_cast<uint32_t>(bytes.size()), 0}; }

Ino make_file(Filesystem& filesystem, std::string_view name, Bytes content) {
  const Ino made = make_file(filesystem, name);
  const LocalSlice from = slice_of(content);
  EXPECT_TRUE(filesystem.write(made, 0, std::span(&from, 1), false, nullptr).ok());
  return made;
}

TEST(JointTransfer, MovesReadsAndWritesOfManyFiles) {
  MountedVolume volume;
  const Ino a = make_file(*volume, "a", bytes_of('a', 3 * kUnit));
  const Ino b = make_file(*volume, "b", bytes_of('b', 3 * kUnit));
  Bytes written = bytes_of('x', 100), replaced = bytes_of('y');
  Bytes read_a(kUnit), at_end(kUnit), behind(kUnit);
  {
    const auto joint = volume->joint_transfer();
    EXPECT_TRUE(joint->begin_write(b, 50, slice_of(written), false));
    EXPECT_TRUE(joint->begin_read(a, kUnit, slice_of(read_a)));
    EXPECT_TRUE(joint->begin_write(b, kUnit, slice_of(replaced), false));
    EXPECT_TRUE(joint->begin_read(a, 3 * kUnit - 10, slice_of(at_end)));
    EXPECT_TRUE(joint->begin_read(a, 3 * kUnit, slice_of(behind)));
    ASSERT_EQ(joint->size(), 5u);
    ASSERT_TRUE(joint->try_move().ok());
    EXPECT_EQ(*joint->result(0), 100u);
    EXPECT_EQ(*joint->result(1), kUnit);
    EXPECT_EQ(*joint->result(2), kUnit);
    EXPECT_EQ(*joint->result(3), 10u);
    EXPECT_EQ(*joint->result(4), 0u);
  }
  EXPECT_EQ(read_a, bytes_of('a'));
  Bytes expected = bytes_of('b', 3 * kUnit);
  std::fill_n(expected.begin() + 50, 100, std::byte{'x'});
  std::fill_n(expected.begin() + kUnit, kUnit, std::byte{'y'});
  EXPECT_EQ(read(*volume, b, 0, 4 * kUnit), expected);
  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();
  EXPECT_EQ(read(*volume, volume->lookup(kRootIno, "b")->ino, 0, 4 * kUnit), expected);
}

TEST(JointTransfer, OverwritesNothingWithSetIdBitsNorBehindTheEnd) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "a", bytes_of('a', 2 * kUnit));
  Bytes written = bytes_of('x');
  {
    const auto joint = volume->joint_transfer();
    EXPECT_FALSE(joint->begin_overwrite(ino, kUnit + 1, slice_of(written)));
    EXPECT_TRUE(joint->begin_overwrite(ino, kUnit, slice_of(written)));
    ASSERT_TRUE(joint->try_move().ok());
    EXPECT_EQ(*joint->result(0), kUnit);
  }
  AttributeChange set_id;
  set_id.mode = 06755;
  ASSERT_TRUE(volume->set_attributes(ino, set_id, root_caller()).ok());
  const auto joint = volume->joint_transfer();
  EXPECT_FALSE(joint->begin_overwrite(ino, 0, slice_of(written)));
  EXPECT_TRUE(joint->begin_write(ino, 0, slice_of(written), false));
}

TEST(JointTransfer, HolesReadAsZeros) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "a", bytes_of('a'));
  AttributeChange longer;
  longer.size_bytes = 3 * kUnit;
  ASSERT_TRUE(volume->set_attributes(ino, longer, root_caller()).ok());
  Bytes bytes = bytes_of('?', 2 * kUnit);
  const auto joint = volume->joint_transfer();
  ASSERT_TRUE(joint->begin_read(ino, kUnit / 2, slice_of(bytes)));
  ASSERT_TRUE(joint->move().ok());
  EXPECT_EQ(*joint->result(0), 2 * kUnit);
  Bytes expected = bytes_of('a', 2 * kUnit);
  std::fill(expected.begin() + kUnit / 2, expected.end(), std::byte{0});
  EXPECT_EQ(bytes, expected);
}

TEST(JointTransfer, WhatNeedsMoreThanItsBytesMovedIsLeftToOthers) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "a", bytes_of('a', kUnit + 100));
  const Ino allocated = make_file(*volume, "b", bytes_of('b'));
  ASSERT_TRUE(volume->allocate(allocated, 0, kUnit, kUnit, nullptr).ok());
  AttributeChange longer;
  longer.size_bytes = 3 * kUnit;
  const Ino holes = make_file(*volume, "c", bytes_of('c'));
  ASSERT_TRUE(volume->set_attributes(holes, longer, root_caller()).ok());
  Bytes bytes = bytes_of('x', 200), none;
  const auto joint = volume->joint_transfer();
  EXPECT_FALSE(joint->begin_write(ino, kUnit, slice_of(bytes), false)) << "makes the file longer";
  EXPECT_FALSE(joint->begin_write(allocated, kUnit, slice_of(bytes), false)) << "never written";
  EXPECT_FALSE(joint->begin_write(allocated, kUnit - 100, slice_of(bytes), false)) << "half of it never written";
  EXPECT_FALSE(joint->begin_write(holes, kUnit, slice_of(bytes), false)) << "a hole";
  EXPECT_FALSE(joint->begin_write(holes, kUnit - 100, slice_of(bytes), false)) << "half a hole";
  EXPECT_FALSE(joint->begin_write(ino, 0, slice_of(none), false));
  EXPECT_FALSE(joint->begin_read(ino, 0, slice_of(none)));
  EXPECT_FALSE(joint->begin_read(kRootIno, 0, slice_of(bytes))) << "a directory";
  EXPECT_FALSE(joint->begin_write(kRootIno, 0, slice_of(bytes), false));
  EXPECT_FALSE(joint->begin_read(Ino{12345}, 0, slice_of(bytes)));
  EXPECT_EQ(joint->size(), 0u);
  ASSERT_TRUE(joint->move().ok());
  EXPECT_EQ(read(*volume, ino, 0, 2 * kUnit), bytes_of('a', kUnit + 100));
}

TEST(JointTransfer, WaitsForNobody) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "a", bytes_of('a', 2 * kUnit));
  Bytes bytes = bytes_of('x'), other = bytes_of('y'), read_bytes(kUnit);
  {
    const auto first = volume->joint_transfer(), second = volume->joint_transfer();
    ASSERT_TRUE(first->begin_write(ino, 0, slice_of(bytes), false));
    EXPECT_FALSE(second->begin_write(ino, 10, slice_of(other), false));
    EXPECT_FALSE(second->begin_read(ino, 0, slice_of(read_bytes)));
    EXPECT_FALSE(first->begin_read(ino, 0, slice_of(read_bytes)))
        << "of its own either: bytes of one batch land in any order";
    EXPECT_TRUE(second->begin_write(ino, kUnit, slice_of(other), false));
    ASSERT_TRUE(second->try_move().ok());
    ASSERT_TRUE(second->result(0).ok());
  }  // the first was never moved
  EXPECT_EQ(read(*volume, ino, 0, kUnit), bytes_of('a'));
  EXPECT_EQ(read(*volume, ino, kUnit, kUnit), bytes_of('y'));
}

TEST(JointTransfer, StampsAndTakesCapabilitiesAway) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "a", bytes_of('a'));
  const Bytes capability(20, std::byte{1});
  ASSERT_TRUE(volume->set_xattr(ino, "security.capability", capability, 0, root_caller()).ok());
  AttributeChange old;
  old.mtime = TimeNs{1};
  ASSERT_TRUE(volume->set_attributes(ino, old, root_caller()).ok());
  Bytes bytes = bytes_of('x');
  {
    const auto joint = volume->joint_transfer();
    ASSERT_TRUE(joint->begin_write(ino, 0, slice_of(bytes), false));
    ASSERT_TRUE(joint->move().ok());
    ASSERT_TRUE(joint->result(0).ok());
  }
  EXPECT_GT(volume->get_attributes(ino)->mtime, TimeNs{1});
  EXPECT_EQ(volume->get_xattr(ino, "security.capability").code(), ENODATA);
}

TEST(JointTransfer, AReadOnlyMountIsNotWrittenTo) {
  MountedVolume volume;
  make_file(*volume, "a", bytes_of('a'));
  ASSERT_TRUE(volume.unmount().ok());
  volume.options().mount.read_only = true;
  ASSERT_TRUE(volume.mount().ok());
  Bytes bytes = bytes_of('x');
  const auto joint = volume->joint_transfer();
  EXPECT_FALSE(joint->begin_write(volume->lookup(kRootIno, "a")->ino, 0, slice_of(bytes), false));
}

// The brick is away: the thread has others to serve.
TEST(JointTransfer, TriesWithoutWaitingForABrickThatIsAway) {
  RestartingBrick brick(64, 64);
  VolumeOptions options;
  options.open.client = ClientId{1};
  options.open.client_name = "test";
  Holder holder;
  auto client = VolumeSet::open(brick.make_brick(), options, &holder);
  ASSERT_TRUE(client.ok());
  std::string why;
  auto mounted = Filesystem::mount(std::move(*client), {}, &why);
  ASSERT_TRUE(mounted.ok()) << why;
  Filesystem& filesystem = **mounted;
  const Ino ino = make_file(filesystem, "a", bytes_of('a', 2 * kUnit));
  ASSERT_TRUE(filesystem.sync_all().ok());
  brick.faults().refuse(true);
  brick.faults().lose();
  Bytes bytes = bytes_of('x'), read_bytes(kUnit);
  {
    const auto joint = filesystem.joint_transfer();
    ASSERT_TRUE(joint->begin_write(ino, 0, slice_of(bytes), false));
    ASSERT_TRUE(joint->begin_read(ino, kUnit, slice_of(read_bytes)));
    EXPECT_FALSE(joint->try_move().ok());
  }
  brick.faults().refuse(false);
  {
    const auto joint = filesystem.joint_transfer();
    ASSERT_TRUE(joint->begin_write(ino, 0, slice_of(bytes), false)) << "nothing is held any more";
    ASSERT_TRUE(joint->begin_read(ino, kUnit, slice_of(read_bytes)));
    EXPECT_TRUE(joint->move().ok()) << "this waits until the brick is back";
  }
  EXPECT_EQ(read_bytes, bytes_of('a'));
  EXPECT_EQ(read(filesystem, ino, 0, kUnit), bytes_of('x'));
}

}  // namespace
}  // namespace brickfs
