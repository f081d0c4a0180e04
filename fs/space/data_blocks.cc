// SPDX-License-Identifier: Apache-2.0
#include "fs/space/data_blocks.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr int kTriesPerClass = 8;
// What takes less at a time shares its block with others.
constexpr uint64_t kTailUnits = 16;

size_t class_of(uint32_t free_units) {
  CHECK(free_units > 0);
  return static_cast<size_t>(std::bit_width(free_units)) - 1;
}

uint64_t block_of_unit(uint64_t unit) { return unit / kUnitsPerBlock; }

// Calls visit(block, run within it) for each block that the run touches.
template <typename Visit>
void for_each_block(UnitRun run, Visit visit) {
  while (run.count > 0) {
    const uint32_t offset = static_cast<uint32_t>(run.first % kUnitsPerBlock);
    const uint32_t count = static_cast<uint32_t>(std::min<uint64_t>(run.count, kUnitsPerBlock - offset));
    visit(block_of_unit(run.first), UnitBitmap::Run{offset, count});
    run.first += count;
    run.count -= count;
  }
}

UnitRun volume_run(uint64_t block, UnitBitmap::Run run) { return {block * kUnitsPerBlock + run.first, run.count}; }

}  // namespace

Status DataBlocks::adopt(UnitRun run) {
  Status status;
  for_each_block(run, [&](uint64_t block, UnitBitmap::Run part) {
    if (!status.ok()) return;
    auto at = partial_.find(block);
    if (full_.contains_all({block, 1}) || (at != partial_.end() && at->second.any_used(part))) {
      status = Error(EUCLEAN, "space used twice");
      return;
    }
    if (at == partial_.end()) {
      if (part.count == kUnitsPerBlock) {
        full_.insert({block, 1});
        return;
      }
      at = partial_.emplace(block, UnitBitmap()).first;
      classes_[kEmptyClass].insert(block);
      free_units_ += kUnitsPerBlock;
    }
    use(at, part);
  });
  return status;
}

void DataBlocks::add(BlockRun blocks, uint64_t used_units) {
  CHECK(used_units > (blocks.count - 1) * kUnitsPerBlock && used_units <= blocks.count * kUnitsPerBlock);
  const uint64_t full = used_units / kUnitsPerBlock;
  const uint32_t rest = static_cast<uint32_t>(used_units % kUnitsPerBlock);
  if (full > 0) full_.insert({blocks.first, full});
  if (rest == 0) return;
  const uint64_t last = blocks.end() - 1;
  const auto at = partial_.emplace(last, UnitBitmap()).first;
  classes_[kEmptyClass].insert(last);
  free_units_ += kUnitsPerBlock;
  use(at, {0, rest});
  if (used_units >= kTailUnits) note_tail(last);
}

UnitRun DataBlocks::extend(uint64_t goal, uint64_t most) {
  const uint64_t block = block_of_unit(goal);
  const auto at = partial_.find(block);
  if (at == partial_.end()) return {};
  const uint32_t first = static_cast<uint32_t>(goal % kUnitsPerBlock);
  const UnitBitmap::Run run{first, at->second.free_from(first, static_cast<uint32_t>(std::min(most, kUnitsPerBlock)))};
  if (run.count == 0) return {};
  use(at, run);
  if (run.count >= kTailUnits && partial_.contains(block)) note_tail(block);
  return volume_run(block, run);
}

std::optional<UnitRun> DataBlocks::take_fitting(uint64_t units) {
  if (units > kUnitsPerBlock) return std::nullopt;
  const uint32_t count = static_cast<uint32_t>(units);
  // Blocks with about four times the room first: it is likely in one piece there, and emptier blocks may yet become
  // empty.
  const size_t exact = class_of(count);
  const size_t roomy = std::min(exact + 2, kEmptyClass);
  for (size_t size_class = roomy; size_class <= kEmptyClass; ++size_class) {
    if (auto run = take_from_class(size_class, count)) return run;
  }
  for (size_t size_class = roomy; size_class-- > exact;) {
    if (auto run = take_from_class(size_class, count)) return run;
  }
  return std::nullopt;
}

std::optional<UnitRun> DataBlocks::take_from_class(size_t size_class, uint32_t units) {
  int tries = kTriesPerClass;
  for (const uint64_t block : classes_[size_class]) {
    if (is_tail(block)) continue;
    const auto at = partial_.find(block);
    const UnitBitmap::Run run = at->second.find_free(units);
    if (run.count > 0) {
      use(at, run);
      return volume_run(block, run);
    }
    if (--tries == 0) break;
  }
  return std::nullopt;
}

UnitRun DataBlocks::take_any(uint64_t most) {
  for (size_t size_class = classes_.size(); size_class-- > 0;) {
    if (classes_[size_class].empty()) continue;
    const uint64_t block = *classes_[size_class].begin();
    const auto at = partial_.find(block);
    const UnitBitmap::Run run = at->second.next_free(0, static_cast<uint32_t>(std::min(most, kUnitsPerBlock)));
    use(at, run);
    return volume_run(block, run);
  }
  return {};
}

void DataBlocks::give_back(UnitRun run) {
  for_each_block(run, [this](uint64_t block, UnitBitmap::Run part) { give_back_within(block, part); });
}

void DataBlocks::give_back_within(uint64_t block, UnitBitmap::Run run) {
  auto at = partial_.find(block);
  if (at == partial_.end()) {
    full_.erase({block, 1});
    at = partial_.emplace(block, UnitBitmap()).first;
    at->second.use({0, UnitBitmap::kUnits});
  } else {
    classes_[class_of(at->second.free_units())].erase(block);
  }
  at->second.give_back(run);
  free_units_ += run.count;
  classes_[class_of(at->second.free_units())].insert(block);
}

uint64_t DataBlocks::empty_blocks(BlockRun among) const {
  const auto& empty = classes_[kEmptyClass];
  if (empty.empty()) return 0;
  if (*empty.begin() >= among.first && *empty.rbegin() < among.end()) return empty.size();
  return static_cast<uint64_t>(std::distance(empty.lower_bound(among.first), empty.lower_bound(among.end())));
}

std::optional<BlockRun> DataBlocks::remove_empty(uint64_t most, BlockRun among) {
  auto& empty = classes_[kEmptyClass];
  auto next = empty.lower_bound(among.first);
  if (next == empty.end() || *next >= among.end() || most == 0) return std::nullopt;
  BlockRun run{*next, 0};
  while (run.count < most && next != empty.end() && *next == run.end() && run.end() < among.end()) {
    next = empty.erase(next);
    partial_.erase(run.end());
    std::erase(tails_, run.end());
    ++run.count;
  }
  free_units_ -= run.count * kUnitsPerBlock;
  return run;
}

bool DataBlocks::contains_any(BlockRun run) const {
  if (full_.contains_any(run)) return true;
  const auto at = partial_.lower_bound(run.first);
  return at != partial_.end() && at->first < run.end();
}

std::vector<BlockRun> DataBlocks::all() const {
  std::vector<BlockRun> runs;
  for (auto run = full_.run_from(0); run; run = full_.run_from(run->end())) runs.push_back(*run);
  for (const auto& [block, bitmap] : partial_) runs.push_back({block, 1});
  return runs;
}

void DataBlocks::use(Partial::iterator at, UnitBitmap::Run run) {
  const uint64_t block = at->first;
  classes_[class_of(at->second.free_units())].erase(block);
  at->second.use(run);
  free_units_ -= run.count;
  if (at->second.free_units() > 0) {
    classes_[class_of(at->second.free_units())].insert(block);
    return;
  }
  partial_.erase(at);
  full_.insert({block, 1});
  std::erase(tails_, block);
}

void DataBlocks::note_tail(uint64_t block) {
  std::erase(tails_, block);
  tails_.push_back(block);
  if (tails_.size() > kTails) tails_.erase(tails_.begin());
}

bool DataBlocks::is_tail(uint64_t block) const { return std::ranges::find(tails_, block) != tails_.end(); }

}  // namespace brickfs
