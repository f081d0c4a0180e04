// SPDX-License-Identifier: Apache-2.0
// Tells the umount helper how far the end of a mount has come (fs/mount/status/mount_state.h), and whoever asks what
// its state is (fs/mount/status/mount_state.h): a thread of its own, which waits for no request and not for the brick.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/daemon/mount_monitor.h"
#include "fs/mount/listening_socket.h"
#include "fs/mount/status/mount_state.h"
#include "fs/operations/ending.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class MountListener {
 public:
  // EACCES and others: there will be no socket (only root can make it), and umount will not wait.
  static Result<std::unique_ptr<MountListener>> start(FileOperations& files, Ending& ending,
                                                      const MountMonitor& monitor, std::chrono::seconds linger,
                                                      std::string options, const std::string& device_number);
  ~MountListener();  // who listens sees the end, if need be without a last report
  MountListener(const MountListener&) = delete;
  MountListener& operator=(const MountListener&) = delete;

  // The mount is gone, and its device number may be another's soon: nobody new is let in.
  void close();
  // No more reports of what goes on: from now on it uses neither the file system, nor `ending`, nor `monitor`.
  // Idempotent.
  void stop();
  // The last report, after stop().
  void tell_end(UmountReport last);

 private:
  MountListener(FileOperations& files, Ending& ending, const MountMonitor& monitor, std::chrono::seconds linger,
                std::string options, ListeningSocket listening, UniqueFd woken);
  void run();
  bool wait() ABSL_LOCKS_EXCLUDED(mutex_);  // false: the end
  void let_in();
  void pause();
  void hear(size_t client);
  void tell_all(const UmountReport& report);
  UmountReport report() const;

  FileOperations& files_;
  Ending& ending_;
  const MountMonitor& monitor_;
  const uint64_t linger_seconds_;
  const std::string options_;
  const ListeningSocket listening_;
  UniqueFd woken_;                 // eventfd: by stop()
  std::vector<UniqueFd> clients_;  // the thread's, until it has ended

  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace brickfs
