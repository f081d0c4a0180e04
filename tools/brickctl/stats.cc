// SPDX-License-Identifier: Apache-2.0
// brickctl stats, profile and top: what a mount or a brick does.
#include "tools/brickctl/brick_stats.h"
#include "tools/brickctl/commands.h"
#include "tools/brickctl/mount_stats.h"
#include "tools/brickctl/mount_target.h"
#include "tools/brickctl/stats_loop.h"

namespace brickfs {
namespace {

// show(a subject)
template <typename Show>
int with_subject(const Command& command, Show&& show) {
  if (!is_source(command.source)) return show(MountStats(command.source));
  return show(BrickStats(command.source, command.admin_secret_file));
}

}  // namespace

int run_stats(const Command& command) {
  return with_subject(command, [&](const auto& subject) { return show_stats(command, subject); });
}

int run_profile(const Command& command) {
  return show_profile(command, MountStats(command.source), command.profile_seconds);
}

int run_top(const Command& command) {
  const double seconds = command.watch_seconds.value_or(1);
  return with_subject(command, [&](const auto& subject) { return show_top(command, subject, seconds); });
}

}  // namespace brickfs
