// SPDX-License-Identifier: Apache-2.0
// A set of unsigned numbers, kept as maximal half-open intervals: small where neighbours go together, O(log intervals)
// to ask and to change. Threads: none of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/container/btree_map.h"

namespace brickfs {

template <typename Number>
class IntervalSet {
 public:
  struct Interval {
    Number first = 0;
    Number end = 0;  // behind the last

    Number count() const { return end - first; }
    bool empty() const { return first == end; }
    bool operator==(const Interval&) const = default;
  };

  // Numbers that are there already stay.
  void insert(Interval numbers) {
    if (numbers.empty()) return;
    auto at = first_ending_at_or_behind(numbers.first);
    while (at != intervals_.end() && at->first <= numbers.end) {
      numbers = {std::min(numbers.first, at->first), std::max(numbers.end, at->second)};
      count_ -= at->second - at->first;
      at = intervals_.erase(at);
    }
    count_ += numbers.count();
    intervals_.emplace_hint(at, numbers.first, numbers.end);
  }

  // Numbers that are not there are passed over.
  void erase(Interval numbers) {
    if (numbers.empty()) return;
    auto at = first_ending_behind(numbers.first);
    while (at != intervals_.end() && at->first < numbers.end) {
      const Interval old{at->first, at->second};
      at = intervals_.erase(at);
      count_ -= old.count();
      if (old.first < numbers.first) put({old.first, numbers.first});
      if (old.end > numbers.end) put({numbers.end, old.end});
      if (old.end >= numbers.end) return;
      at = intervals_.lower_bound(numbers.first);
    }
  }

  void clear() {
    intervals_.clear();
    count_ = 0;
  }

  bool empty() const { return intervals_.empty(); }
  uint64_t count() const { return count_; }  // of numbers
  size_t intervals() const { return intervals_.size(); }

  bool contains_all(Interval numbers) const {
    if (numbers.empty()) return true;
    const auto at = first_ending_behind(numbers.first);
    return at != intervals_.end() && at->first <= numbers.first && at->second >= numbers.end;
  }
  bool contains_any(Interval numbers) const {
    if (numbers.empty()) return false;
    const auto at = first_ending_behind(numbers.first);
    return at != intervals_.end() && at->first < numbers.end;
  }

  // What there is from this number on, to the end of its interval.
  std::optional<Interval> at_or_behind(Number from) const {
    const auto at = first_ending_behind(from);
    if (at == intervals_.end()) return std::nullopt;
    return Interval{std::max(at->first, from), at->second};
  }
  std::optional<Interval> last() const {
    if (intervals_.empty()) return std::nullopt;
    const auto at = std::prev(intervals_.end());
    return Interval{at->first, at->second};
  }

  // visit(Interval) of each interval, cut to `within`, ascending, until it returns false.
  template <typename Visit>
  void for_each(Interval within, Visit&& visit) const {
    for (auto at = first_ending_behind(within.first); at != intervals_.end() && at->first < within.end; ++at) {
      if (!visit(Interval{std::max(at->first, within.first), std::min(at->second, within.end)})) return;
    }
  }
  // The same of all of them.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [first, end] : intervals_) {
      if (!visit(Interval{first, end})) return;
    }
  }

  bool operator==(const IntervalSet& other) const { return intervals_ == other.intervals_; }

 private:
  using Map = absl::btree_map<Number, Number>;  // first -> end; never touching each other

  void put(Interval numbers) {
    intervals_.emplace(numbers.first, numbers.end);
    count_ += numbers.count();
  }
  typename Map::const_iterator first_ending_behind(Number number) const {
    auto at = intervals_.upper_bound(number);
    if (at != intervals_.begin() && std::prev(at)->second > number) --at;
    return at;
  }
  typename Map::iterator first_ending_behind(Number number) {
    auto at = intervals_.upper_bound(number);
    if (at != intervals_.begin() && std::prev(at)->second > number) --at;
    return at;
  }
  typename Map::iterator first_ending_at_or_behind(Number number) {
    auto at = intervals_.upper_bound(number);
    if (at != intervals_.begin() && std::prev(at)->second >= number) --at;
    return at;
  }

  Map intervals_;
  uint64_t count_ = 0;
};

}  // namespace brickfs
