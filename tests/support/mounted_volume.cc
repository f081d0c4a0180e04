// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mounted_volume.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "server/service/embedded_brick.h"
#include "transport/base/check.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

MountedVolume::MountedVolume() : MountedVolume(Options{}) {}

MountedVolume::MountedVolume(Options options) : options_(options) {
  BrickConfig config;
  config.memory_bytes = options_.memory_bytes;
  if (options_.durable) {
    char path[] = "/tmp/brickfs-test-XXXXXX";
    const UniqueFd file(::mkstemp(path));
    CHECK(file.valid());
    CHECK(::unlink(path) == 0);
    store_path_ = path;
    config.store_path = store_path_;
    config.store_bytes = options_.memory_bytes;
  }
  std::string why;
  auto service = BrickService::open(config, &why);
  EXPECT_TRUE(service.ok()) << why;
  CHECK(service.ok());
  service_ = std::move(service).value();
  const Status mounted = mount(&why);
  EXPECT_TRUE(mounted.ok()) << why;
  CHECK(mounted.ok());
}

MountedVolume::~MountedVolume() {
  crash();
  service_.reset();
  if (!store_path_.empty()) ::unlink(store_path_.c_str());
}

void MountedVolume::crash() { filesystem_.reset(); }

Status MountedVolume::unmount() {
  const Status status = filesystem_->unmount();
  filesystem_.reset();
  return status;
}

Status MountedVolume::mount(std::string* why) {
  CHECK(filesystem_ == nullptr);
  std::random_device random;
  VolumeOptions options;
  options.open.client = ClientId{uint64_t{random()} << 32 | random() | 1};
  options.open.client_name = "test";
  options.open.mode = options_.mount.read_only ? OpenMode::kReadOnly : OpenMode::kExclusive;
  options.embedded = true;
  auto volume = TRY(VolumeSet::open(make_embedded_brick(service_), options, nullptr));
  std::string line;
  filesystem_ = TRY(Filesystem::mount(std::move(volume), options_.mount, why != nullptr ? why : &line));
  return {};
}

void MountedVolume::crash_and_mount() {
  crash();
  std::string why;
  const Status mounted = mount(&why);
  EXPECT_TRUE(mounted.ok()) << why;
  CHECK(mounted.ok());
}

void MountedVolume::unmount_and_mount() {
  EXPECT_TRUE(unmount().ok());
  std::string why;
  const Status mounted = mount(&why);
  EXPECT_TRUE(mounted.ok()) << why;
  CHECK(mounted.ok());
}

Caller root_caller() {
  Caller caller;
  caller.in_group = [](uint32_t) { return true; };
  caller.groups = [] { return Groups{.all = true}; };
  caller.is_administrator = [] { return true; };
  return caller;
}

Caller user_caller(uint32_t uid, uint32_t gid, uint32_t umask) {
  return {.uid = uid,
          .gid = gid,
          .umask = umask,
          .in_group = [gid](uint32_t other) { return other == gid; },
          .groups = [gid] { return Groups{.some = {gid}}; },
          .is_administrator = {}};
}

Ino make_file(FileOperations& files, std::string_view name) {
  const auto made = files.create(kRootIno, name, S_IFREG | 0644, root_caller());
  EXPECT_TRUE(made.ok());
  return made.ok() ? made->ino : kNoIno;
}

std::vector<std::byte> read(Filesystem& filesystem, Ino ino, uint64_t offset, size_t length) {
  std::vector<std::byte> bytes(length, std::byte{0x55});
  const LocalSlice slice{bytes.data(), static_cast<uint32_t>(length), 0};
  const auto got = filesystem.read(ino, offset, std::span(&slice, 1));
  EXPECT_TRUE(got.ok());
  bytes.resize(got.ok() ? *got : 0);
  return bytes;
}

Result<Attributes> stat_path(Filesystem& filesystem, std::string_view path) {
  Attributes at = TRY(filesystem.get_attributes(kRootIno));
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    path = slash == path.npos ? std::string_view{} : path.substr(slash + 1);
    if (name.empty()) continue;
    at = TRY(filesystem.lookup(at.ino, name));
    filesystem.forget(at.ino, 1);
  }
  return at;
}

}  // namespace brickfs
