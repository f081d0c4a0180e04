// SPDX-License-Identifier: Apache-2.0
// The life of a brickfs that mounts nothing: `brickfs SOURCE none -o shared` has a shared volume for the machines that
// mount it. While another one coordinates the volume this is a member that asks for nothing, and has it next.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "fs/daemon/mount_events.h"
#include "fs/daemon/mount_listener.h"
#include "fs/daemon/mount_monitor.h"
#include "fs/mount/mount_options.h"
#include "fs/operations/ending.h"
#include "fs/served/served_volume.h"
#include "transport/base/result.h"
#include "transport/metrics/metrics_server.h"

namespace brickfs {

// Its steps, in this order. Threads: one.
class Coordinating {
 public:
  Coordinating(MountCommand command, const MountEvents& events, std::string* why)
      : command_(std::move(command)), events_(events), why_(why) {}

  Status start();
  void wait_for_end();
  Status finish();

 private:
  VolumeAccess& access() const { return volume_->files().volume(); }
  MountState fixed_state() const;
  void listen();
  bool is_lost() const;

  const MountCommand command_;
  const MountEvents& events_;
  std::string* const why_;
  // Destroyed in reverse order.
  std::unique_ptr<ServedVolume> volume_;
  std::unique_ptr<Ending> ending_;
  std::unique_ptr<MountMonitor> monitor_;
  std::unique_ptr<MountListener> listener_;
  std::atomic<const MountMonitor*> shown_ = nullptr;
  std::atomic<bool> handed_over_ = false;
  std::unique_ptr<MetricsServer> metrics_;
};

// Serves until a signal asks for an end, the volume is handed over to a member, or it is lost. An error with one line
// in `why`: it never served, or the volume is lost, or not everything has reached the brick.
Status coordinate_without_mount(MountCommand command, const MountEvents& events, std::string* why);

}  // namespace brickfs
