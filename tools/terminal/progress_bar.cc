// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal/progress_bar.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kBetweenBars{100};
constexpr std::chrono::seconds kBetweenLines{2};
constexpr size_t kBarColumns = 24;
constexpr size_t kUsualColumns = 80;

size_t terminal_columns() {
  struct winsize size {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

std::string time_left(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s left", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min left", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h left", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string progress_line(std::string_view what, uint64_t done, uint64_t total, double rate, size_t columns) {
  done = std::min(done, total);
  const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  const auto full = static_cast<size_t>(part * kBarColumns);
  std::string bar(full, '=');
  if (full < kBarColumns) bar += '>';
  bar.resize(kBarColumns, ' ');
  std::string line = fmt::format("[{}] {:3} %  {} of {} {}", bar, static_cast<unsigned>(part * 100), done, total, what);
  if (rate > 0 && done < total) {
    line += fmt::format("  {:.0f}/s  {}", rate, time_left(static_cast<double>(total - done) / rate));
  }
  return line.substr(0, columns);
}

ProgressBar::ProgressBar() : on_terminal_(::isatty(STDERR_FILENO) != 0) {}

void ProgressBar::show(std::string_view what, uint64_t done, uint64_t total) {
  const auto now = Clock::now();
  const double rate = pace_.rate(what, done);
  if (now < next_) return;
  next_ = now + (on_terminal_ ? std::chrono::nanoseconds(kBetweenBars) : std::chrono::nanoseconds(kBetweenLines));
  if (!on_terminal_) {
    fmt::print(stderr, "{} of {} {}\n", done, total, what);
    return;
  }
  fmt::print(stderr, "\r{}\x1b[K", progress_line(what, done, total, rate, terminal_columns() - 1));
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::end() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace brickfs
