// SPDX-License-Identifier: Apache-2.0
// The volume that a mount serves, from its SOURCE to its end: what only its owner does. All others go by files().
//
// Threads: one, but for files().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "fs/mount/mount_options.h"
#include "fs/operations/filesystem.h"
#include "transport/base/result.h"

namespace brickfs {

class ServedVolume {
 public:
  // Opens the volume, which is tried again as the command says (MountRetry, `waiting`), and mounts its file system.
  // With a durable one that is older than this host has seen it, the log says so. Errors as open_volume() and
  // Filesystem::mount(), with one line in `why`.
  static Result<std::unique_ptr<ServedVolume>> open(const MountCommand& command,
                                                    std::function<void(const std::string& why)> waiting,
                                                    std::string* why);

  // Until this goes, also behind unmount().
  FileOperations& files() { return *filesystem_; }
  // As Filesystem::unmount(); this host remembers how far a durable one was.
  Status unmount();

 private:
  ServedVolume() = default;
  void look_at_last_seen(const std::string& source) const;
  void keep_last_seen() const;

  // Whom the volume asks to commit: null before it is mounted, and from unmount() on.
  const std::shared_ptr<std::atomic<Filesystem*>> commit_target_ = std::make_shared<std::atomic<Filesystem*>>(nullptr);
  std::unique_ptr<Filesystem> filesystem_;
};

}  // namespace brickfs
