// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/mount_monitor.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fs/mount/status/waiting_requests.h"

namespace brickfs {
namespace {

std::string_view name_of(LinkState::Kind kind) {
  switch (kind) {
    case LinkState::Kind::kConnected:
      return "connected";
    case LinkState::Kind::kSilent:
      return "silent";
    case LinkState::Kind::kWaiting:
      return "waiting";
    case LinkState::Kind::kFailed:
      return "failed";
  }
  return "";
}

double in_seconds(MountMonitor::Clock::duration time) {
  return std::max(0.0, std::chrono::duration<double>(time).count());
}

OperationState operation_state(std::string_view name, const LatencyCounts& counts) {
  OperationState state;
  state.name = name;
  state.count = counts.count();
  state.failures = counts.failures;
  state.bytes = counts.bytes;
  state.seconds = static_cast<double>(counts.nanoseconds) * 1e-9;
  state.buckets.assign(counts.buckets.begin(), counts.buckets.end());
  return state;
}

}  // namespace

MountMonitor::MountMonitor(FileOperations& files, std::shared_ptr<const OperationCounters> operations,
                           const ShmQueues* queues, MountState fixed, const std::string& device)
    : files_(files),
      operations_(std::move(operations)),
      queues_(queues),
      fixed_(std::move(fixed)),
      device_(device),
      link_since_(Clock::now()),
      got_on_(link_since_) {}

void MountMonitor::look(Clock::time_point now) {
  const LinkState::Kind link = files_.volume().link_state().kind;
  const Uncommitted uncommitted = files_.uncommitted();
  MutexLock lock(mutex_);
  if (link != std::exchange(link_, link)) {
    link_since_ = now;
    ++link_changes_;
  }
  if (uncommitted.operations == 0 || uncommitted.committed != committed_) got_on_ = now;
  committed_ = uncommitted.committed;
}

MountState MountMonitor::state(Clock::time_point now) const {
  MountState state = fixed_;
  const LinkState link = files_.volume().link_state();
  state.link = name_of(link.kind);
  state.link_text = link.text;
  state.store_trouble = files_.store_trouble();
  state.read_only = files_.read_only();
  state.read_only_reason = files_.why_read_only();
  const FilesystemStat stat = files_.stat();
  state.capacity_bytes = stat.total_units * stat.unit_bytes;
  state.free_bytes = stat.free_units * stat.unit_bytes;
  state.inodes = stat.inodes;
  state.free_inodes = stat.free_inodes;
  state.metadata_bytes = stat.metadata_bytes;
  const PersistenceStat persistence = files_.persistence();
  state.journal_bytes = persistence.journal_bytes;
  state.checkpoint_bytes = persistence.checkpoint_bytes;
  if (persistence.checkpoint_age) state.checkpoint_age_seconds = in_seconds(*persistence.checkpoint_age);
  state.checkpoint_seconds = in_seconds(persistence.checkpoint_took);
  state.kernel_waiting = waiting_requests(device_);
  if (queues_ != nullptr) state.rings = queues_->count();
  for (const auto& operation : operations_->operations())
    state.operations.push_back(operation_state(operation.name, operation.counts));
  for (size_t call = 0; call < kVolumeCalls; ++call) {
    const auto kind = static_cast<VolumeCall>(call);
    state.volume.push_back(operation_state(name_of(kind), files_.volume().counts(kind)));
  }
  if (const auto map = files_.volume().map()) {
    state.copies_wanted = map->wanted;
    state.copies = copies_of(*map, files_.volume().absent_copies());
    state.etcd_trouble = files_.volume().map_trouble();
    state.etcd_trouble_for_seconds = in_seconds(files_.volume().map_troubled_for());
  }
  const Uncommitted uncommitted = files_.uncommitted();
  state.uncommitted_operations = uncommitted.operations;
  state.uncommitted_bytes = uncommitted.bytes;
  MutexLock lock(mutex_);
  state.link_changes = link_changes_;
  if (link.kind == link_) state.link_for_seconds = in_seconds(now - link_since_);
  if (uncommitted.operations > 0 && uncommitted.committed == committed_)
    state.uncommitted_for_seconds = in_seconds(now - got_on_);
  return state;
}

}  // namespace brickfs
