// SPDX-License-Identifier: Apache-2.0
// A file system for tests: on an embedded brick, through all real layers, that can crash and be mounted again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fs/operations/filesystem.h"
#include "server/service/brick_service.h"
#include "transport/base/bytes.h"

namespace brickfs {

class MountedVolume {
 public:
  struct Options {
    uint64_t memory_bytes = 128 * kMiB;
    bool durable = false;  // memory with a store file, which goes with this
    MountOptions mount;
  };

  MountedVolume();  // mounted
  explicit MountedVolume(Options options);
  ~MountedVolume();  // as crash()
  MountedVolume(const MountedVolume&) = delete;
  MountedVolume& operator=(const MountedVolume&) = delete;

  Filesystem& operator*() { return *filesystem_; }
  Filesystem* operator->() { return filesystem_.get(); }

  // The client is gone without a word; the brick lives on.
  void crash();
  Status unmount();
  // Mounts (again). `why` gets the line for people.
  Status mount(std::string* why = nullptr);
  void crash_and_mount();  // fails the test if it cannot
  void unmount_and_mount();
  Options& options() { return options_; }
  const std::shared_ptr<BrickService>& brick() { return service_; }

 private:
  Options options_;
  std::string store_path_;
  std::shared_ptr<BrickService> service_;
  std::unique_ptr<Filesystem> filesystem_;
};

// A caller with all rights, and one with none.
Caller root_caller();
Caller user_caller(uint32_t uid, uint32_t gid, uint32_t umask = 0);

// An empty file of root's in the root directory, by whichever way there; the test has failed if it cannot be made.
Ino make_file(FileOperations& files, std::string_view name);
// What is there of these bytes of a file.
std::vector<std::byte> read(Filesystem& filesystem, Ino ino, uint64_t offset, size_t length);

// Walks a path from the root and gives the references taken on the way back; a test's shorthand for many lookups.
Result<Attributes> stat_path(Filesystem& filesystem, std::string_view path);

}  // namespace brickfs
