// SPDX-License-Identifier: Apache-2.0
// How brickctl stats, profile and top look at what counts: once, for a while, over and over. A *subject* is what they
// look at (mount_stats.h, brick_stats.h).
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "tools/brickctl/commands.h"
#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/stats_screen.h"

namespace brickfs {

inline void pause_for(double seconds) {
  using std::chrono::duration;
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + duration<double>(seconds);
  while (!interrupted() && steady_clock::now() < until)
    std::this_thread::sleep_for(std::min<duration<double>>(until - steady_clock::now(), duration<double>(0.1)));
}

template <typename Subject>
void print_stats(const Command& command, const Subject& subject, const typename Subject::Sample* before,
                 const typename Subject::Sample& now, SortBy by, bool with_share) {
  if (command.json) return print_json(subject.json(before, now));
  fmt::print("{}", subject.text(before, now, by, with_share));
  std::fflush(stdout);
}

// Interval after interval, until it is interrupted.
template <typename Subject, typename Show>
int watch_stats(const Command& command, const Subject& subject, typename Subject::Sample before, double seconds,
                Show&& show) {
  for (;;) {
    pause_for(seconds);
    if (interrupted()) return EXIT_SUCCESS;
    std::string why;
    auto now = subject.look(&why);
    if (!now.ok()) return fail(command, why);
    show(before, *now);
    before = std::move(*now);
  }
}

template <typename Subject>
int show_stats(const Command& command, const Subject& subject) {
  std::string why;
  auto now = subject.look(&why);
  if (!now.ok()) return fail(command, why);
  print_stats(command, subject, nullptr, *now, SortBy::kName, false);
  if (!command.watch_seconds) return EXIT_SUCCESS;
  catch_interrupts();
  return watch_stats(command, subject, std::move(*now), *command.watch_seconds,
                     [&](const auto& before, const auto& next) {
                       if (!command.json) fmt::print("\n");
                       print_stats(command, subject, &before, next, SortBy::kName, false);
                     });
}

// One interval of so many seconds.
template <typename Subject>
int show_profile(const Command& command, const Subject& subject, double seconds) {
  catch_interrupts();
  std::string why;
  const auto before = subject.look(&why);
  if (!before.ok()) return fail(command, why);
  pause_for(seconds);
  const auto now = subject.look(&why);
  if (!now.ok()) return fail(command, why);
  print_stats(command, subject, &*before, *now, SortBy::kTime, true);
  return EXIT_SUCCESS;
}

template <typename Subject>
int show_top(const Command& command, const Subject& subject, double seconds) {
  catch_interrupts();
  std::string why;
  auto before = subject.look(&why);
  if (!before.ok()) return fail(command, why);
  if (!StatsScreen::is_possible()) {
    return watch_stats(command, subject, std::move(*before), seconds, [&](const auto& last, const auto& now) {
      fmt::print("{}\n", subject.text(&last, now, SortBy::kTime, true));
      std::fflush(stdout);
    });
  }
  StatsScreen screen(Subject::kKeys);
  for (;;) {
    auto now = subject.look(&why);
    if (!now.ok()) {
      screen.end();
      return fail(command, why);
    }
    const auto text = [&](SortBy by) { return subject.text(&*before, *now, by, true); };
    if (!screen.show(text, seconds) || interrupted()) return EXIT_SUCCESS;
    before = std::move(now);
  }
}

}  // namespace brickfs
