// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/extent_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace brickfs {
namespace {

TEST(ExtentMap, IsEmptyAtFirst) {
  const ExtentMap map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.extents(), 0u);
  EXPECT_FALSE(map.last());
  EXPECT_FALSE(map.at_or_after(0));
  EXPECT_TRUE(map.find(0, UINT64_MAX).empty());
}

TEST(ExtentMap, AppendsMergeIntoOneExtent) {
  ExtentMap map;
  for (uint64_t unit = 0; unit < 100; ++unit) map.map({unit, 1, 500 + unit, false}, nullptr);
  EXPECT_EQ(map.extents(), 1u);
  EXPECT_EQ(map.last(), (Extent{0, 100, 500, false}));
}

TEST(ExtentMap, FillingAHoleMergesBothSides) {
  ExtentMap map;
  map.map({0, 2, 10, false}, nullptr);
  map.map({3, 2, 13, false}, nullptr);
  EXPECT_EQ(map.extents(), 2u);
  map.map({2, 1, 12, false}, nullptr);
  EXPECT_EQ(map.find(0, 100), (ExtentList{{0, 5, 10, false}}));
}

TEST(ExtentMap, PreallocatedUnitsDoNotMergeWithWrittenOnes) {
  ExtentMap map;
  map.map({0, 8, 100, true}, nullptr);
  std::vector<UnitRun> freed;
  map.map({2, 3, 102, false}, &freed);
  EXPECT_TRUE(freed.empty()) << "the same units, now written: none is free";
  EXPECT_EQ(map.find(0, 8), (ExtentList{{0, 2, 100, true}, {2, 3, 102, false}, {5, 3, 105, true}}));
  EXPECT_EQ(map.mapped_units(), 8u);
}

TEST(ExtentMap, ReplacedUnitsAreFreed) {
  ExtentMap map;
  map.map({0, 10, 100, false}, nullptr);
  std::vector<UnitRun> freed;
  map.map({4, 2, 300, false}, &freed);
  EXPECT_EQ(freed, (std::vector<UnitRun>{{104, 2}}));
  EXPECT_EQ(map.mapped_units(), 10u);
}

TEST(ExtentMap, TruncationToNothingFreesAll) {
  ExtentMap map;
  map.map({0, 1, 7, false}, nullptr);
  map.map({uint64_t{1} << 50, 1, 9, false}, nullptr);
  std::vector<UnitRun> freed;
  map.unmap(0, UINT64_MAX, &freed);
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(freed, (std::vector<UnitRun>{{7, 1}, {9, 1}}));
}

// The map against one entry for each unit.
class Model {
 public:
  struct Place {
    uint64_t volume_unit;
    bool unwritten;
  };

  void map(const Extent& extent) {
    for (uint64_t i = 0; i < extent.count; ++i)
      units_[extent.file_unit + i] = {extent.volume_unit + i, extent.unwritten};
  }
  void unmap(uint64_t first, uint64_t end) { units_.erase(units_.lower_bound(first), units_.lower_bound(end)); }
  std::vector<uint64_t> volume_units() const {
    std::vector<uint64_t> all;
    for (const auto& [unit, place] : units_) all.push_back(place.volume_unit);
    std::sort(all.begin(), all.end());
    return all;
  }
  ExtentList find(uint64_t first, uint64_t end) const {
    ExtentList found;
    for (auto it = units_.lower_bound(first); it != units_.end() && it->first < end; ++it) {
      const auto& [unit, place] = *it;
      Extent* last = found.empty() ? nullptr : &found.back();
      if (last != nullptr && last->end() == unit && last->volume_unit + last->count == place.volume_unit &&
          last->unwritten == place.unwritten) {
        ++last->count;
      } else {
        found.push_back({unit, 1, place.volume_unit, place.unwritten});
      }
    }
    return found;
  }
  size_t size() const { return units_.size(); }

 private:
  std::map<uint64_t, Place> units_;
};

std::vector<uint64_t> units_of(const std::vector<UnitRun>& runs) {
  std::vector<uint64_t> units;
  for (const UnitRun& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) units.push_back(run.first + i);
  }
  std::sort(units.begin(), units.end());
  return units;
}

TEST(ExtentMap, EqualsAnArrayUnderRandomChanges) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr uint64_t kUnits = 64;
  ExtentMap map;
  Model model;
  uint64_t next_fresh = 1000;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t first = random() % kUnits;
    const uint64_t count = 1 + random() % (kUnits - first);
    const std::vector<uint64_t> before = model.volume_units();
    std::vector<UnitRun> freed;
    if (random() % 3 == 0) {
      const bool to_the_end = random() % 4 == 0;
      map.unmap(first, to_the_end ? UINT64_MAX - first : count, &freed);
      model.unmap(first, to_the_end ? kUnits : first + count);
    } else {
      const auto old = map.at_or_after(first);
      Extent extent{first, count, next_fresh, random() % 4 == 0};
      if (old && old->file_unit <= first && random() % 2 == 0) {  // other flags on the same units
        extent = {first, std::min(count, old->end() - first), old->volume_unit + (first - old->file_unit),
                  !old->unwritten};
      } else if (random() % 2 == 0) {
        next_fresh += count;  // else the next mapping continues somewhere near
      } else {
        next_fresh += 1000;
        extent.volume_unit = next_fresh;
        next_fresh += count;
      }
      if (extent.volume_unit >= next_fresh) next_fresh = extent.volume_unit + extent.count;
      map.map(extent, &freed);
      model.map(extent);
    }
    const std::vector<uint64_t> after = model.volume_units();
    std::vector<uint64_t> gone;
    std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(gone));
    ASSERT_EQ(units_of(freed), gone) << "step " << step;
    ASSERT_EQ(map.find(0, kUnits), model.find(0, kUnits)) << "step " << step;
    ASSERT_EQ(map.find(first, count), model.find(first, first + count)) << "step " << step;
    ASSERT_EQ(map.mapped_units(), model.size());
    ASSERT_EQ(map.extents(), model.find(0, kUnits).size());
    const auto behind = model.find(0, kUnits);
    const auto expected = std::find_if(behind.begin(), behind.end(), [&](const Extent& e) { return e.end() > first; });
    ASSERT_EQ(map.at_or_after(first), expected == behind.end() ? std::nullopt : std::optional(*expected));
    ASSERT_EQ(map.last(), behind.empty() ? std::nullopt : std::optional(behind.back()));
  }
}

}  // namespace
}  // namespace brickfs
