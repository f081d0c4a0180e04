// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/mount_monitor.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "fs/mount/status/mount_table.h"
#include "transport/base/log.h"
#include "transport/membership/set_map.h"

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

}  // namespace

MountMonitor::MountMonitor(FileOperations& files, std::shared_ptr<const OperationCounters> operations,
                           const ShmQueues* queues, MountState fixed, const std::string& device,
                           std::function<void(MountState&)> sharing)
    : files_(files),
      operations_(std::move(operations)),
      queues_(queues),
      fixed_(std::move(fixed)),
      device_(device),
      sharing_(std::move(sharing)),
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
  if (!device_.empty()) state.kernel_waiting = waiting_requests(device_);
  if (queues_ != nullptr) state.rings = queues_->count();
  if (sharing_) sharing_(state);
  if (operations_ != nullptr)
    for (const auto& operation : operations_->operations())
      state.operations.push_back(operation_state(operation.name, operation.counts));
  for (size_t call = 0; call < kVolumeCalls; ++call) {
    const auto kind = static_cast<VolumeCall>(call);
    state.volume.push_back(operation_state(name_of(kind), files_.volume().counts(kind)));
  }
  if (const auto known = files_.volume().known_map()) {
    state.copies_wanted = known->map.wanted;
    state.copies = copies_of(known->map, known->absent);
    state.etcd_trouble = known->trouble;
    state.etcd_trouble_for_seconds = in_seconds(known->troubled_for);
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

MountState fixed_state(const MountCommand& command, Durability durability) {
  MountState state;
  state.version = BRICKFS_VERSION;
  state.pid = getpid();
  state.source = command.source;
  state.mountpoint = command.mountpoint;
  state.mounted_since = time(nullptr);
  state.secret_file = command.secret_path;
  state.durable = durability == Durability::kDurable;
  state.soft = command.soft;
  state.soft_seconds = command.soft_timeout.count();
  state.max_metadata_bytes = command.max_metadata_bytes;
  return state;
}

Result<std::unique_ptr<MetricsServer>> serve_metrics(const MountCommand& command,
                                                     std::function<const MountMonitor*()> monitor, std::string* why) {
  if (!command.metrics) return std::unique_ptr<MetricsServer>();
  auto server = MetricsServer::start(*command.metrics, [monitor = std::move(monitor)](Metrics& metrics) {
    if (const MountMonitor* const there = monitor()) collect(there->state(MountMonitor::Clock::now()), metrics);
  });
  if (!server.ok()) {
    *why = fmt::format("option {}: {}", command.common.at("metrics"), strerror(server.error().code()));
    return server.error();
  }
  log::info("metrics at http://{}:{}/metrics", command.metrics->host, (*server)->port());
  return server;
}

namespace {

double number(uint64_t value) { return static_cast<double>(value); }

LatencyCounts latencies_of(const OperationState& operation) {
  LatencyCounts counts;
  std::copy_n(operation.buckets.begin(), std::min(operation.buckets.size(), counts.buckets.size()),
              counts.buckets.begin());
  counts.nanoseconds = static_cast<uint64_t>(operation.seconds * 1e9);
  return counts;
}

void collect_operations(const MountState& state, Metrics& metrics) {
  for (const OperationState& one : state.operations) {
    const Metrics::Labels labels{{"operation", one.name}};
    metrics.histogram("brickfs_operation_duration_seconds",
                      "Requests of the kernel and of rings, until they were answered.", latencies_of(one), labels);
    metrics.counter("brickfs_operation_failures_total", "Requests that ended with an errno.", number(one.failures),
                    labels);
    if (one.bytes > 0)
      metrics.counter("brickfs_operation_bytes_total", "Bytes of data of these requests.", number(one.bytes), labels);
  }
  metrics.gauge("brickfs_kernel_waiting_requests", "Requests that the kernel has made and not got answered.",
                number(state.kernel_waiting));
  if (state.has_rings) {
    metrics.gauge("brickfs_rings", "Rings that programs have (ring=on).", number(state.rings));
    metrics.gauge("brickfs_rings_limit", "That they may have.", number(state.most_rings));
  }
}

void collect_calls(const MountState& state, Metrics& metrics) {
  for (const OperationState& one : state.calls) {
    const Metrics::Labels labels{{"call", one.name}};
    metrics.histogram("brickfs_member_call_duration_seconds",
                      "Calls of members: that this coordinator did, or that this member made.", latencies_of(one),
                      labels);
    metrics.counter("brickfs_member_call_failures_total", "Those that ended with an errno.", number(one.failures),
                    labels);
    if (one.bytes > 0)
      metrics.counter("brickfs_member_call_bytes_total", "Bytes of files that went along.", number(one.bytes), labels);
  }
}

void collect_sharing(const MountState& state, Metrics& metrics) {
  if (!state.sharing.empty()) metrics.gauge("brickfs_sharing", "Always 1.", 1, {{"role", state.sharing}});
  collect_calls(state, metrics);
  if (state.sharing == "member") {
    metrics.counter("brickfs_direct_read_bytes_total", "That this member has read from the bricks itself.",
                    number(state.direct_read_bytes));
    metrics.counter("brickfs_direct_write_bytes_total", "That this member has written to the bricks itself.",
                    number(state.direct_write_bytes));
  }
  if (state.sharing != "coordinator") return;
  metrics.gauge("brickfs_members", "Machines that have the volume through this one.", number(state.member_count));
  metrics.counter("brickfs_members_expelled_total", "That were not heard of for their lease.",
                  number(state.members_expelled));
  metrics.gauge("brickfs_leases", "Inodes that members rely on, of each member.", number(state.leases));
  metrics.counter("brickfs_recalls_total", "Of leases, as what they were about was to be changed.",
                  number(state.recalls));
  metrics.counter("brickfs_recalls_lapsed_total", "Of these: that no answer came to, and that were waited out.",
                  number(state.recalls_lapsed));
  for (const MemberState& member : state.members) {
    const Metrics::Labels labels{{"member", member.name}};
    metrics.counter("brickfs_member_calls_total", "Calls that were done for it.", number(member.calls), labels);
    metrics.counter("brickfs_member_busy_seconds_total", "That these took.", member.seconds, labels);
    metrics.counter("brickfs_member_bytes_total", "Bytes of files that went along.", number(member.bytes), labels);
    metrics.gauge("brickfs_member_silent_seconds", "Since it was heard of.", member.silent_seconds, labels);
  }
}

void collect_volume(const MountState& state, Metrics& metrics) {
  for (const OperationState& one : state.volume) {
    const Metrics::Labels labels{{"call", one.name}};
    metrics.histogram("brickfs_volume_call_duration_seconds",
                      "What brickfs did with its volume; call=\"wait\": waiting for a brick that was away.",
                      latencies_of(one), labels);
    metrics.counter("brickfs_volume_call_failures_total", "Those that failed.", number(one.failures), labels);
    if (one.bytes > 0)
      metrics.counter("brickfs_volume_bytes_total", "Bytes that were moved.", number(one.bytes), labels);
  }
}

void collect_link(const MountState& state, Metrics& metrics) {
  for (const char* const kind : {"connected", "silent", "waiting", "failed"}) {
    metrics.gauge("brickfs_link_state", "1 for the state that the link to the brick is in.", state.link == kind ? 1 : 0,
                  {{"state", kind}});
  }
  metrics.gauge("brickfs_link_state_seconds", "How long it has been so.", state.link_for_seconds);
  metrics.counter("brickfs_link_changes_total", "Changes of that state.", number(state.link_changes));
  metrics.gauge("brickfs_link_redirected", "1: the way around is used, as the wanted one failed.",
                state.link_text.find("redirected") != state.link_text.npos ? 1 : 0);
  if (state.copies_wanted > 0) {
    std::map<uint64_t, uint64_t> in_sync;  // by place
    for (const CopyState& copy : state.copies) in_sync[copy.place] += copy.can_be_read() ? 1 : 0;
    metrics.gauge("brickfs_copies_wanted", "Copies of each place of the set.", number(state.copies_wanted));
    for (const auto& [place, count] : in_sync) {
      metrics.gauge("brickfs_copies_in_sync", "Copies of the place that can be read.", number(count),
                    {{"place", std::to_string(place)}});
    }
    metrics.gauge("brickfs_etcd_up", "0: etcd does not answer, and no copy can be left out or come back.",
                  state.etcd_trouble.empty() ? 1 : 0);
    metrics.gauge("brickfs_etcd_down_seconds", "How long it has not.", state.etcd_trouble_for_seconds);
  }
  metrics.gauge("brickfs_store_healthy", "0: the brick's store has a full or failed disk.",
                state.store_trouble.empty() ? 1 : 0);
}

void collect_space(const MountState& state, Metrics& metrics) {
  metrics.gauge("brickfs_capacity_bytes", "Of the volume, for files.", number(state.capacity_bytes));
  metrics.gauge("brickfs_free_bytes", "Of these.", number(state.free_bytes));
  metrics.gauge("brickfs_inodes", "In use.", number(state.inodes));
  metrics.gauge("brickfs_free_inodes", "That may still be made.", number(state.free_inodes));
  metrics.gauge("brickfs_metadata_memory_bytes", "Of memory, for inodes and names.", number(state.metadata_bytes));
  if (state.max_metadata_bytes > 0)
    metrics.gauge("brickfs_metadata_memory_limit_bytes", "max_metadata=", number(state.max_metadata_bytes));
  metrics.gauge("brickfs_read_only", "1: nothing can be changed.", state.read_only ? 1 : 0);
  metrics.gauge("brickfs_damaged", "1: it is read-only because something was found wrong with it.",
                state.read_only_reason.empty() ? 0 : 1);
}

void collect_persistence(const MountState& state, Metrics& metrics) {
  metrics.gauge("brickfs_uncommitted_operations", "Answered for, and a crash of the brick would undo them.",
                number(state.uncommitted_operations));
  metrics.gauge("brickfs_uncommitted_bytes", "Kept for replay in case of that.", number(state.uncommitted_bytes));
  metrics.gauge("brickfs_uncommitted_seconds", "How long nothing of them has been committed.",
                state.uncommitted_for_seconds);
  metrics.gauge("brickfs_journal_bytes", "On the brick.", number(state.journal_bytes));
  metrics.gauge("brickfs_checkpoint_bytes", "On the brick.", number(state.checkpoint_bytes));
  if (state.checkpoint_age_seconds < 0) return;
  metrics.gauge("brickfs_checkpoint_age_seconds", "Since the writing of the last one began.",
                state.checkpoint_age_seconds);
  metrics.gauge("brickfs_checkpoint_duration_seconds", "That its writing took.", state.checkpoint_seconds);
}

}  // namespace

void collect(const MountState& state, Metrics& metrics) {
  metrics.gauge("brickfs_mount_info", "Always 1.", 1,
                {{"version", state.version},
                 {"source", state.source},
                 {"mountpoint", state.mountpoint},
                 {"requests", state.io_uring ? "io_uring" : "dev_fuse"},
                 {"writeback", state.writeback ? "on" : "off"},
                 {"rings", state.has_rings ? "on" : "off"}});
  metrics.gauge("brickfs_mount_time_seconds", "When it was mounted, in seconds since 1970.",
                static_cast<double>(state.mounted_since));
  collect_operations(state, metrics);
  collect_sharing(state, metrics);
  collect_volume(state, metrics);
  collect_link(state, metrics);
  collect_space(state, metrics);
  collect_persistence(state, metrics);
}

}  // namespace brickfs
