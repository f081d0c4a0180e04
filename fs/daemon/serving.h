// SPDX-License-Identifier: Apache-2.0
// The life of a mount: from the open volume to the end of the last request, and what is left to do then.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fs/daemon/mount_events.h"
#include "fs/daemon/mount_kernel.h"
#include "fs/daemon/mount_listener.h"
#include "fs/daemon/mount_monitor.h"
#include "fs/fuse/protocol/negotiation.h"
#include "fs/fuse/serve/loop.h"
#include "fs/fuse/serve/mount.h"
#include "fs/fuse/serve/uring.h"
#include "fs/mount/mount_options.h"
#include "fs/operations/ending.h"
#include "fs/served/served_volume.h"
#include "fs/shm_queue/serve/shm_queues.h"
#include "transport/base/result.h"
#include "transport/metrics/metrics_server.h"

namespace brickfs {

// Its steps, in this order. Threads: one.
class Serving {
 public:
  Serving(MountCommand command, const MountEvents& events, std::string* why)
      : command_(std::move(command)), events_(events), why_(why) {}

  Status start();  // start.cc
  void wait_for_end();
  Status finish();

 private:
  Status mount_it();
  Status choose_requests_way();
  void put_uring_switch_back();
  void look_at_request_limit();
  Status look_at_sharing();
  Sharing sharing() const;
  void start_sharing();
  void choose_writeback();
  VolumeAccess& access() const { return volume_->files().volume(); }
  MountState fixed_state() const;
  void leave_callers_unit();
  void listen_to_umount();
  Status start_shm_queues();
  std::string common_options() const;
  void look_at_link();
  void look_at_loss(LinkState::Kind link);
  void end_requests();
  void let_go(LinkState::Kind link, std::string text);

  MountCommand command_;
  const MountEvents& events_;
  std::string* const why_;
  UringSwitch uring_switch_;
  // Destroyed in reverse order.
  std::unique_ptr<ServedVolume> volume_;
  std::unique_ptr<FuseMount> mount_;
  std::unique_ptr<FuseLoop> loop_;
  std::unique_ptr<MountKernel> own_kernel_;  // as a coordinator
  std::unique_ptr<ShmQueues> shm_queues_;
  std::unique_ptr<Ending> ending_;
  std::unique_ptr<MountMonitor> monitor_;
  std::unique_ptr<MountListener> listener_;
  std::atomic<const MountMonitor*> shown_ = nullptr;
  std::unique_ptr<MetricsServer> metrics_;
  bool asked_to_end_ = false;  // by a signal
  int drops_ = 0;              // of the kernel's caches, since the volume was lost
  RequestLimit limit_;
  std::string uring_obstacle_;      // to io_uring=auto
  std::string writeback_obstacle_;  // to writeback=auto
  std::optional<std::chrono::steady_clock::time_point> away_since_;
};

// Mounts and serves until the mount is taken away (umount) or a signal asks for an end. An error with one line in
// `why`: before it was ready nothing is mounted; after that, not everything has reached the brick.
//
// How it ends. After umount(8) everything is brought to the brick, for however long the brick is away (as with a `hard`
// mount's operations); a signal makes that a matter of seconds.
Status serve_mount(MountCommand command, const MountEvents& events, std::string* why);

}  // namespace brickfs
