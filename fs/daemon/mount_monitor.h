// SPDX-License-Identifier: Apache-2.0
// What a mount says of itself, and that as numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/fuse/protocol/operation_counters.h"
#include "fs/mount/mount_options.h"
#include "fs/mount/status/mount_state.h"
#include "fs/operations/file_operations.h"
#include "fs/shm_queue/serve/shm_queues.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/metrics/metrics.h"
#include "transport/metrics/metrics_server.h"
#include "transport/volume/link_state.h"

namespace brickfs {

// What a mount says of itself (fs/mount/status/mount_state.h): what it was mounted with, how it is now, and since when,
// which takes looking at it again and again.
//
// Threads: any.
class MountMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  // `operations`: of the kernel; `queues`; null: none. Both outlive this. `fixed`: what does not change while it is
  // mounted. `device`: its number, "MAJOR:MINOR"; empty: it is mounted nowhere. `sharing`: fills in what a
  // shared volume has beside that; null: it is none.
  MountMonitor(FileOperations& files, std::shared_ptr<const OperationCounters> operations, const ShmQueues* queues,
               MountState fixed, const std::string& device, std::function<void(MountState&)> sharing = {});
  // Often: what happened between two looks was not seen. Waits for nothing.
  void look(Clock::time_point now);
  MountState state(Clock::time_point now) const;

 private:
  FileOperations& files_;
  const std::shared_ptr<const OperationCounters> operations_;
  const ShmQueues* const queues_;
  const MountState fixed_;
  const std::string device_;
  const std::function<void(MountState&)> sharing_;

  mutable Mutex mutex_;
  LinkState::Kind link_ ABSL_GUARDED_BY(mutex_) = LinkState::Kind::kConnected;
  Clock::time_point link_since_ ABSL_GUARDED_BY(mutex_);
  uint64_t link_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t committed_ ABSL_GUARDED_BY(mutex_) = 0;    // Uncommitted::committed
  Clock::time_point got_on_ ABSL_GUARDED_BY(mutex_);  // when that last changed, or there was nothing to commit
};

// What does not change while it is mounted, as far as its command and its volume tell.
MountState fixed_state(const MountCommand& command, Durability durability);

// Where Prometheus may ask for these numbers (metrics=). Before anything is mounted: a port that cannot be had is a
// reason not to; with one line in `why`. Null: he may not. `monitor` answers null as long as there is none.
Result<std::unique_ptr<MetricsServer>> serve_metrics(const MountCommand& command,
                                                     std::function<const MountMonitor*()> monitor, std::string* why);

// A mount's state as numbers for Prometheus: docs/metrics.md has them all.
void collect(const MountState& state, Metrics& metrics);

}  // namespace brickfs
