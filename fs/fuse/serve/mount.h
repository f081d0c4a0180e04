// SPDX-License-Identifier: Apache-2.0
// One mount: a connection to the kernel over /dev/fuse, attached to a mountpoint. libfuse parses the mount options and
// mounts; requests and their answers do not pass through it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/fuse/serve/session.h"
#include "fs/mount/mount_options.h"
#include "fs/mount/status/mount_table.h"
#include "fs/operations/file_operations.h"
#include "transport/base/bytes.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

struct fuse_session;

namespace brickfs {

class FuseMount {
 public:
  // Mounts; requests wait until a FuseLoop serves them. `why`: one line.
  static Result<std::unique_ptr<FuseMount>> attach(FileOperations& files, const MountCommand& command, Sharing sharing,
                                                   std::string* why);
  // Ends the connection. If it was alive and is mounted still, it is detached. Whoever else ended the connection left a
  // dead mount, which stays: programs are to meet with ENOTCONN, not with the directory below. It is there until
  // somebody unmounts it.
  ~FuseMount();
  FuseMount(const FuseMount&) = delete;
  FuseMount& operator=(const FuseMount&) = delete;

  // Takes the mount, and bind mounts of it, out of the tree, after which nobody new comes in, and has the kernel write
  // back what it holds, as far as that is done in some seconds and `gives_up` does not say so. The connection ends when
  // the last user has gone. Blocks while requests are being served: not on a serving thread.
  void detach(const std::function<bool()>& gives_up);
  // The kernel has ended the connection.
  bool is_severed() const;
  // In the tree, here or at another place (fs/mount/second_mount.h), connected or not.
  bool is_mounted() const;
  const std::string& mountpoint() const { return mountpoint_; }
  const std::string& device_number() const { return device_number_; }
  // All that the kernel has in its caches: KernelCache::drop_everything.
  void drop_everything();
  // Raises the kernel's read-ahead from its 128 KiB to kReadAheadBytes. Best effort: only root may.
  void raise_read_ahead() const;

  FuseSession& session() { return session_; }
  int device() const;

 private:
  FuseMount(FileOperations& files, const MountCommand& command, Sharing sharing);
  Status start_session(const MountCommand& command, std::string* why);
  Status mount_session(std::string* why);
  void unmount_lazily() const;
  // Until none of the kernel's requests is under way.
  void await_answers(std::chrono::milliseconds most, const std::function<bool()>& gives_up) const;
  void keep_room_for_writeback();
  std::vector<std::string> mountpoints() const;

  FileOperations& files_;
  const std::string mountpoint_;
  fuse_session* libfuse_ = nullptr;
  std::string device_number_;  // "MAJOR:MINOR" of the mounted file system
  std::unique_ptr<TouchPermission> touch_permission_;
  FuseSession session_;
};

}  // namespace brickfs
