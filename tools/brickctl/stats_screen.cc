// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/stats_screen.h"

#include <curses.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "tools/brickctl/interrupt.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 100;  // at signals

}  // namespace

bool StatsScreen::is_possible() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && terminal != nullptr &&
         std::string(terminal) != "dumb";
}

StatsScreen::StatsScreen(std::string keys) : keys_(" q: end   sort by  " + std::move(keys) + " ") {
  initscr();
  cbreak();
  noecho();
  curs_set(0);
  keypad(stdscr, TRUE);
  timeout(kLookMs);
}

void StatsScreen::end() {
  if (!ended_) endwin();
  ended_ = true;
}

void StatsScreen::draw(const std::string& text) const {
  erase();
  std::istringstream lines(text);
  int row = 0;
  for (std::string line; row < LINES - 1 && std::getline(lines, line); ++row)
    mvaddnstr(row, 0, line.c_str(), std::max(0, COLS - 1));
  attron(A_REVERSE);
  mvaddnstr(LINES - 1, 0, keys_.c_str(), std::max(0, COLS - 1));
  attroff(A_REVERSE);
  refresh();
}

bool StatsScreen::show(const std::function<std::string(SortBy)>& text, double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  draw(text(by_));
  while (Clock::now() < until) {
    const int key = getch();
    if (interrupted() || key == 'q') return false;
    if (key == 't') by_ = SortBy::kTime;
    if (key == 'c') by_ = SortBy::kCount;
    if (key == 'm') by_ = SortBy::kMean;
    if (key == 'n') by_ = SortBy::kName;
    if (key != ERR) draw(text(by_));
  }
  return true;
}

}  // namespace brickfs
