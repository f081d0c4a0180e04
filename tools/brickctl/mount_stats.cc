// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/mount_stats.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <utility>

#include "tools/brickctl/mount_target.h"
#include "transport/base/bytes.h"
#include "transport/base/printable.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

// Between two looks, or since the mount.
struct Interval {
  MountState state;  // at its end
  double seconds = 0;
  std::vector<OperationState> operations;
  std::vector<OperationState> volume;
  std::vector<OperationState> calls;  // of a shared volume's members
  std::vector<MemberState> members;
};

Interval since_mount(const MountStats::Sample& now) {
  const MountState& state = now.state;
  Interval interval{state, 0, state.operations, state.volume, state.calls, state.members};
  interval.seconds = static_cast<double>(std::max<int64_t>(1, std::time(nullptr) - now.state.mounted_since));
  return interval;
}

// One that was not there before has begun with nothing.
std::vector<MemberState> members_since(const std::vector<MemberState>& before, const std::vector<MemberState>& now) {
  std::vector<MemberState> members = now;
  for (MemberState& member : members) {
    const auto former = std::ranges::find(before, member.name, &MemberState::name);
    if (former == before.end()) continue;
    member.calls -= std::min(member.calls, former->calls);
    member.seconds = std::max(0.0, member.seconds - former->seconds);
    member.bytes -= std::min(member.bytes, former->bytes);
  }
  return members;
}

// Another brickfs in the same place has counted from nothing.
Interval between(const MountStats::Sample* before, const MountStats::Sample& now) {
  if (before == nullptr || before->state.pid != now.state.pid) return since_mount(now);
  return {now.state,
          duration<double>(now.at - before->at).count(),
          operations_since(before->state.operations, now.state.operations),
          operations_since(before->state.volume, now.state.volume),
          operations_since(before->state.calls, now.state.calls),
          members_since(before->state.members, now.state.members)};
}

Json to_json(const std::vector<OperationState>& operations) {
  Json all = Json::array();
  for (const OperationState& operation : operations) {
    if (operation.count == 0) continue;
    all.push_back({{"name", operation.name},
                   {"count", operation.count},
                   {"failures", operation.failures},
                   {"bytes", operation.bytes},
                   {"seconds", operation.seconds},
                   {"p50_us", quantile_seconds(operation, 0.5) * 1e6},
                   {"p99_us", quantile_seconds(operation, 0.99) * 1e6}});
  }
  return all;
}

Json to_json(const std::vector<MemberState>& members) {
  Json all = Json::array();
  for (const MemberState& member : members) {
    all.push_back({{"name", member.name},
                   {"calls", member.calls},
                   {"seconds", member.seconds},
                   {"bytes", member.bytes},
                   {"silent_seconds", member.silent_seconds},
                   {"read_only", member.read_only}});
  }
  return all;
}

// Those that cost most come first.
std::string member_table(std::vector<MemberState> members, double seconds) {
  std::ranges::stable_sort(members, std::greater<>(), &MemberState::seconds);
  std::string table =
      fmt::format("{:>12}{:>12}{:>12}{:>10}{:>12}  {}\n", "calls", "per s", "busy %", "MB/s", "silent", "member");
  for (const MemberState& member : members) {
    const double calls = static_cast<double>(member.calls);
    table += fmt::format("{:>12}{:>12.1f}{:>12.1f}{:>10.1f}{:>10.1f} s  {}{}\n", member.calls, calls / seconds,
                         100 * member.seconds / seconds, static_cast<double>(member.bytes) / seconds / 1e6,
                         member.silent_seconds, printable(member.name), member.read_only ? " (ro)" : "");
  }
  return table;
}

}  // namespace

Result<MountStats::Sample> MountStats::look(std::string* why) const {
  MountState state = TRY(ask_mount(path_, why));
  return Sample{std::move(state), steady_clock::now()};
}

Json MountStats::json(const Sample* before, const Sample& now) const {
  const Interval interval = between(before, now);
  return {{"mountpoint", interval.state.mountpoint},
          {"source", interval.state.source},
          {"seconds", interval.seconds},
          {"operations", to_json(interval.operations)},
          {"volume", to_json(interval.volume)},
          {"calls", to_json(interval.calls)},
          {"members", to_json(interval.members)}};
}

std::string MountStats::text(const Sample* before, const Sample& now, SortBy by, bool with_share) const {
  const Interval interval = between(before, now);
  const MountState& state = interval.state;
  std::string text = fmt::format(
      "{}: {} ({}{}), {} of {} free, {} inodes in {} of memory, {} operations not committed\n",
      printable(state.mountpoint), printable(state.source), state.link == "connected" ? "" : state.link + ": ",
      printable(state.link_text), about_size(state.free_bytes), about_size(state.capacity_bytes), state.inodes,
      about_size(state.metadata_bytes), state.uncommitted_operations);
  std::vector<OperationState> operations = interval.operations;
  sort_operations(operations, by);
  std::vector<OperationState> calls = interval.calls;
  sort_operations(calls, by);
  if (!operations.empty())
    text += "\nthe kernel's requests\n" + operation_table(operations, interval.seconds, with_share);
  if (state.sharing == "member") {
    text += fmt::format("\n{} read from the bricks and {} written to them without the coordinator so far\n",
                        about_size(state.direct_read_bytes), about_size(state.direct_write_bytes));
    text += "\ncalls to the coordinator\n" + operation_table(calls, interval.seconds, with_share);
    return text;
  }
  text += "\nbrickfs with its volume\n" + operation_table(interval.volume, interval.seconds, false);
  if (interval.members.empty() && calls.empty()) return text;
  text += fmt::format("\n{} leases of members, {} recalls of them so far, {} waited out; {} member(s) expelled\n",
                      state.leases, state.recalls, state.recalls_lapsed, state.members_expelled);
  text += "\ncalls of members\n" + operation_table(calls, interval.seconds, with_share);
  text += "\n" + member_table(interval.members, interval.seconds);
  if (state.member_count > interval.members.size())
    text += fmt::format("and {} more\n", state.member_count - interval.members.size());
  return text;
}

}  // namespace brickfs
