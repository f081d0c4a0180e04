// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/mount_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "transport/base/printable.h"

namespace brickfs {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(OperationState, name, count, failures, bytes, seconds, buckets)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CopyState, place, source, state, leaving, copied_blocks, total_blocks,
                                                away, trouble)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MemberState, name, silent_seconds, calls, seconds, bytes, read_only)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    MountState, version, pid, source, mountpoint, mounted_since, secret_file, link, link_text, link_for_seconds,
    link_changes, store_trouble, durable, soft, soft_seconds, read_only, read_only_reason, io_uring, io_uring_obstacle,
    writeback, writeback_obstacle, sharing, member_count, members, members_expelled, leases, recalls, recalls_lapsed,
    direct_read_bytes, direct_write_bytes, calls, has_rings, rings, most_rings, request_limit_seconds, capacity_bytes,
    free_bytes, inodes, free_inodes, metadata_bytes, max_metadata_bytes, uncommitted_operations, uncommitted_bytes,
    uncommitted_for_seconds, journal_bytes, checkpoint_bytes, checkpoint_age_seconds, checkpoint_seconds,
    kernel_waiting, operations, volume, copies_wanted, copies, etcd_trouble, etcd_trouble_for_seconds)

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

std::vector<CopyState> copies_of(const SetMap& map, const std::vector<MemberId>& absent) {
  std::vector<CopyState> copies;
  for (size_t place = 0; place < map.places.size(); ++place) {
    for (const MapReplica& replica : map.places[place].replicas) {
      const bool away = std::ranges::find(absent, replica.id) != absent.end();
      copies.push_back({place, replica.source, name_of(replica.state), replica.leaving, replica.copied_blocks,
                        replica.total_blocks, away, replica.trouble});
    }
  }
  return copies;
}

std::string encode(const MountState& state) { return json(state).dump(-1, ' ', false, json::error_handler_t::replace); }

std::optional<MountState> decode_mount_state(std::string_view packet) {
  const json object = json::parse(packet, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  try {
    return object.get<MountState>();
  } catch (const json::exception&) {  // a field of another type
    return std::nullopt;
  }
}

namespace {

constexpr size_t kTextBytes = 1024;

// As one line.
std::string flat(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  text.resize(cut_text(text, kTextBytes).size());
  return text;
}

}  // namespace

std::string encode(const UmountReport& report) {
  return fmt::format("{} {} {} {} {} {} {} {}\n{}\n{}\n{}\n", static_cast<int>(report.link), report.serving ? 1 : 0,
                     report.ended ? 1 : 0, report.pid, report.linger_seconds, report.progress,
                     report.uncommitted_operations, report.uncommitted_bytes, flat(report.uncommitted),
                     flat(report.text), flat(report.options));
}

std::optional<UmountReport> decode_umount_report(std::string_view packet) {
  std::istringstream lines{std::string(packet)};
  UmountReport report;
  int link = 0;
  int serving = 0;
  int ended = 0;
  lines >> link >> serving >> ended >> report.pid >> report.linger_seconds >> report.progress;
  if (!lines) return std::nullopt;
  if (link < 0 || link > static_cast<int>(LinkState::Kind::kFailed)) return std::nullopt;
  report.link = static_cast<LinkState::Kind>(link);
  report.serving = serving != 0;
  report.ended = ended != 0;
  std::string rest;
  if (std::getline(lines, rest)) std::istringstream(rest) >> report.uncommitted_operations >> report.uncommitted_bytes;
  for (std::string* const line : {&report.uncommitted, &report.text, &report.options}) {
    if (!std::getline(lines, *line)) return std::nullopt;
  }
  return report;
}

std::string umount_socket(std::string_view device_number) {
  return fmt::format("{}/{}", kUmountDirectory, device_number);
}

}  // namespace brickfs
