// SPDX-License-Identifier: Apache-2.0
// A terminal that shows a text over and over, and takes keys: q ends it, t, c, m, n sort (time, count, mean, name, or
// what the text has in their place). Source: ncurses(3X).
#pragma once

#include <functional>
#include <string>

#include "tools/brickctl/operation_table.h"

namespace brickfs {

class StatsScreen {
 public:
  static bool is_possible();  // standard input and output are a terminal that can do it

  explicit StatsScreen(std::string keys);  // what they sort by, for people
  ~StatsScreen() { end(); }
  StatsScreen(const StatsScreen&) = delete;
  StatsScreen& operator=(const StatsScreen&) = delete;

  // Shows it, and waits so long; a key may ask for another order meanwhile. False: q, or a signal that
  // catch_interrupts() catches.
  bool show(const std::function<std::string(SortBy)>& text, double seconds);
  // The terminal as it was before.
  void end();

 private:
  void draw(const std::string& text) const;

  const std::string keys_;
  SortBy by_ = SortBy::kTime;
  bool ended_ = false;
};

}  // namespace brickfs
