// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/mount_stats.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
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
};

Interval since_mount(const MountStats::Sample& now) {
  Interval interval{now.state, 0, now.state.operations, now.state.volume};
  interval.seconds = static_cast<double>(std::max<int64_t>(1, std::time(nullptr) - now.state.mounted_since));
  return interval;
}

// Another brickfs in the same place has counted from nothing.
Interval between(const MountStats::Sample* before, const MountStats::Sample& now) {
  if (before == nullptr || before->state.pid != now.state.pid) return since_mount(now);
  return {now.state, duration<double>(now.at - before->at).count(),
          operations_since(before->state.operations, now.state.operations),
          operations_since(before->state.volume, now.state.volume)};
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
          {"volume", to_json(interval.volume)}};
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
  text += "\nthe kernel's requests\n" + operation_table(operations, interval.seconds, with_share);
  text += "\nbrickfs with its volume\n" + operation_table(interval.volume, interval.seconds, false);
  return text;
}

}  // namespace brickfs
