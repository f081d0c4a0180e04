// SPDX-License-Identifier: Apache-2.0
// brickctl stats, profile and top: what a mount does, counted by its brickfs.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "tools/brickctl/commands.h"
#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/mount_target.h"
#include "tools/brickctl/operation_table.h"
#include "tools/brickctl/stats_screen.h"
#include "transport/base/bytes.h"
#include "transport/base/printable.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

struct Sample {
  MountState state;
  steady_clock::time_point at;
};

// Between two looks, or since the mount.
struct Interval {
  MountState state;  // at its end
  double seconds = 0;
  std::vector<OperationState> operations;
  std::vector<OperationState> volume;
};

Result<Sample> look(const Command& command, std::string* why) {
  MountState state = TRY(ask_mount(command.source, why));
  return Sample{std::move(state), steady_clock::now()};
}

Interval since_mount(const Sample& now) {
  Interval interval{now.state, 0, now.state.operations, now.state.volume};
  interval.seconds = static_cast<double>(std::max<int64_t>(1, std::time(nullptr) - now.state.mounted_since));
  return interval;
}

// Another brickfs in the same place has counted from nothing.
Interval between(const Sample& before, const Sample& now) {
  if (before.state.pid != now.state.pid) return since_mount(now);
  return {now.state, duration<double>(now.at - before.at).count(),
          operations_since(before.state.operations, now.state.operations),
          operations_since(before.state.volume, now.state.volume)};
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

Json to_json(const Interval& interval) {
  return {{"mountpoint", interval.state.mountpoint},
          {"source", interval.state.source},
          {"seconds", interval.seconds},
          {"operations", to_json(interval.operations)},
          {"volume", to_json(interval.volume)}};
}

std::string text_of(const Interval& interval, SortBy by, bool with_share) {
  const MountState& state = interval.state;
  std::string text = fmt::format(
      "{}: {} ({}{}), {} of {} free, {} inodes in {} of memory, {} operations not committed\n",
      printable(state.mountpoint), printable(state.source), state.link == "connected" ? "" : state.link + ": ",
      printable(state.link_text), format_size(state.free_bytes), format_size(state.capacity_bytes), state.inodes,
      format_size((state.metadata_bytes + kKiB - 1) / kKiB * kKiB), state.uncommitted_operations);
  std::vector<OperationState> operations = interval.operations;
  sort_operations(operations, by);
  text += "\nthe kernel's requests\n" + operation_table(operations, interval.seconds, with_share);
  text += "\nbrickfs with its volume\n" + operation_table(interval.volume, interval.seconds, false);
  return text;
}

void print(const Command& command, const Interval& interval, SortBy by, bool with_share) {
  if (command.json) return print_json(to_json(interval));
  fmt::print("{}", text_of(interval, by, with_share));
  std::fflush(stdout);
}

void pause(double seconds) {
  const auto until = steady_clock::now() + duration<double>(seconds);
  while (!interrupted() && steady_clock::now() < until)
    std::this_thread::sleep_for(std::min<duration<double>>(until - steady_clock::now(), duration<double>(0.1)));
}

// Interval after interval, until it is interrupted.
template <typename Show>
int watch(const Command& command, Sample before, double seconds, Show&& show) {
  for (;;) {
    pause(seconds);
    if (interrupted()) return EXIT_SUCCESS;
    std::string why;
    auto now = look(command, &why);
    if (!now.ok()) return fail(command, why);
    show(between(before, *now));
    before = std::move(*now);
  }
}

}  // namespace

int run_stats(const Command& command) {
  std::string why;
  auto now = look(command, &why);
  if (!now.ok()) return fail(command, why);
  print(command, since_mount(*now), SortBy::kName, false);
  if (!command.watch_seconds) return EXIT_SUCCESS;
  catch_interrupts();
  return watch(command, std::move(*now), *command.watch_seconds, [&](const Interval& interval) {
    if (!command.json) fmt::print("\n");
    print(command, interval, SortBy::kName, false);
  });
}

int run_profile(const Command& command) {
  catch_interrupts();
  std::string why;
  const auto before = look(command, &why);
  if (!before.ok()) return fail(command, why);
  pause(command.profile_seconds);
  const auto now = look(command, &why);
  if (!now.ok()) return fail(command, why);
  print(command, between(*before, *now), SortBy::kTime, true);
  return EXIT_SUCCESS;
}

int run_top(const Command& command) {
  catch_interrupts();
  std::string why;
  auto before = look(command, &why);
  if (!before.ok()) return fail(command, why);
  const double seconds = command.watch_seconds.value_or(1);
  if (!StatsScreen::is_possible()) {
    return watch(command, std::move(*before), seconds, [&](const Interval& interval) {
      fmt::print("{}\n", text_of(interval, SortBy::kTime, true));
      std::fflush(stdout);
    });
  }
  StatsScreen screen;
  for (;;) {
    auto now = look(command, &why);
    if (!now.ok()) {
      screen.end();
      return fail(command, why);
    }
    const Interval interval = between(*before, *now);
    const auto text = [&](SortBy by) { return text_of(interval, by, true); };
    if (!screen.show(text, seconds) || interrupted()) return EXIT_SUCCESS;
    before = std::move(now);
  }
}

}  // namespace brickfs
