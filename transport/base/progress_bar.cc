// SPDX-License-Identifier: Apache-2.0
#include "transport/base/progress_bar.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

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
  std::string text = fmt::format(" {:3} %  {} of {} {}", static_cast<unsigned>(part * 100), done, total, what);
  if (rate > 0 && done < total) {
    text += fmt::format("  {:.0f}/s  {}", rate, time_left(static_cast<double>(total - done) / rate));
  }
  const size_t room = columns - std::min(columns, text.size() + 2);  // the text is worth more than the bar
  const size_t length = std::min(kBarColumns, room);
  std::string bar(static_cast<size_t>(part * static_cast<double>(length)), '=');
  if (bar.size() < length) bar += '>';
  bar.resize(length, ' ');
  return fmt::format("[{}]{}", bar, text).substr(0, columns);
}

ProgressBar::ProgressBar() : on_terminal_(::isatty(STDERR_FILENO) != 0) {}

void ProgressBar::show(std::string_view what, uint64_t done, uint64_t total) {
  const double rate = pace_.rate(what, done);
  if (Clock::now() < next_) return;
  put(on_terminal_ ? progress_line(what, done, total, rate, terminal_columns() - 1)
                   : fmt::format("{} of {} {}", done, total, what));
}

void ProgressBar::say(std::string_view what) {
  if (Clock::now() < next_) return;
  put(std::string(on_terminal_ ? what.substr(0, terminal_columns() - 1) : what));
}

void ProgressBar::put(std::string line) {
  if (!on_terminal_ && line == last_line_) return;
  drawn_ = on_terminal_;
  next_ =
      Clock::now() + (on_terminal_ ? std::chrono::nanoseconds(kBetweenBars) : std::chrono::nanoseconds(kBetweenLines));
  if (on_terminal_) {
    fmt::print(stderr, "\r{}\x1b[K", line);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
  last_line_ = std::move(line);
}

Progress progress_for_people(LogTarget log) {
  if (::isatty(STDERR_FILENO) == 0) return progress_in_log();
  const Progress lines = log == LogTarget::kStandardError ? Progress() : progress_in_log();
  return [lines, bar = std::make_shared<ProgressBar>()](std::string_view what, uint64_t done, uint64_t total) {
    if (lines) lines(what, done, total);
    if (done < total) {
      bar->show(what, done, total);
    } else {
      bar->end();
    }
  };
}

void ProgressBar::end() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace brickfs
