// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/extent_map.h"

#include <algorithm>

#include "fs/base/memory_size.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

void append_run(std::vector<UnitRun>& runs, UnitRun run) {
  if (run.count == 0) return;
  if (!runs.empty() && runs.back().end() == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

// Appends what of `run` is not in `kept`.
void append_without(std::vector<UnitRun>& runs, UnitRun run, UnitRun kept) {
  const uint64_t low = std::clamp(kept.first, run.first, run.end());
  const uint64_t high = std::clamp(kept.end(), low, run.end());
  append_run(runs, {run.first, low - run.first});
  append_run(runs, {high, run.end() - high});
}

bool continues(const Extent& left, const Extent& right) {
  return left.end() == right.file_unit && left.volume_unit + left.count == right.volume_unit &&
         left.unwritten == right.unwritten;
}

Extent cut_to(const Extent& extent, uint64_t first, uint64_t end) {
  const uint64_t low = std::max(extent.file_unit, first);
  const uint64_t high = std::min(extent.end(), end);
  return {low, high - low, extent.volume_unit + (low - extent.file_unit), extent.unwritten};
}

}  // namespace

void ExtentMap::map(const Extent& extent, std::vector<UnitRun>* freed) {
  if (extent.count == 0) return;
  CHECK(extent.count <= UINT64_MAX - extent.file_unit);
  if (!tree_ && mapped_units_ == 0) {
    only_ = extent;
    mapped_units_ = extent.count;
    return;
  }
  if (!tree_ && continues(only_, extent)) {
    only_.count += extent.count;
    mapped_units_ += extent.count;
    return;
  }
  grow_tree();
  std::vector<UnitRun> replaced;
  cut(extent.file_unit, extent.end(), freed != nullptr ? &replaced : nullptr);
  for (const UnitRun& run : replaced) append_without(*freed, run, {extent.volume_unit, extent.count});
  insert(extent);
  fold_tree();
}

void ExtentMap::unmap(uint64_t file_unit, uint64_t count, std::vector<UnitRun>* freed) {
  const uint64_t end = file_unit + std::min(count, UINT64_MAX - file_unit);
  if (mapped_units_ == 0 || end == file_unit) return;
  if (!tree_ && (only_.end() <= file_unit || only_.file_unit >= end)) return;
  grow_tree();
  cut(file_unit, end, freed);
  fold_tree();
}

ExtentList ExtentMap::find(uint64_t file_unit, uint64_t count) const {
  const uint64_t end = file_unit + std::min(count, UINT64_MAX - file_unit);
  ExtentList found;
  if (!tree_) {
    if (mapped_units_ > 0 && only_.end() > file_unit && only_.file_unit < end)
      found.push_back(cut_to(only_, file_unit, end));
    return found;
  }
  for (auto it = first_ending_behind(file_unit); it != tree_->end() && it->first < end; ++it) {
    found.push_back(cut_to(extent_at(it), file_unit, end));
  }
  return found;
}

std::optional<Extent> ExtentMap::at_or_after(uint64_t file_unit) const {
  if (!tree_) {
    if (mapped_units_ == 0 || only_.end() <= file_unit) return std::nullopt;
    return only_;
  }
  const auto it = first_ending_behind(file_unit);
  if (it == tree_->end()) return std::nullopt;
  return extent_at(it);
}

std::optional<Extent> ExtentMap::last() const {
  if (mapped_units_ == 0) return std::nullopt;
  if (!tree_) return only_;
  return extent_at(std::prev(tree_->end()));
}

size_t ExtentMap::extents() const {
  if (tree_) return tree_->size();
  return mapped_units_ > 0 ? 1 : 0;
}

size_t ExtentMap::memory_bytes() const {
  const size_t tree = tree_ ? allocated_bytes(sizeof(Tree)) + tree_bytes(tree_->size(), sizeof(Tree::value_type)) : 0;
  return allocated_bytes(sizeof(ExtentMap)) + tree;
}

Extent ExtentMap::extent_at(Tree::const_iterator it) {
  return {it->first, it->second.count, it->second.volume_unit, it->second.unwritten};
}

ExtentMap::Tree::iterator ExtentMap::first_ending_behind(uint64_t file_unit) const {
  auto it = tree_->upper_bound(file_unit);
  if (it == tree_->begin()) return it;
  const auto before = std::prev(it);
  return before->first + before->second.count > file_unit ? before : it;
}

void ExtentMap::cut(uint64_t first, uint64_t end, std::vector<UnitRun>* freed) {
  auto it = first_ending_behind(first);
  while (it != tree_->end() && it->first < end) {
    const Extent old = extent_at(it);
    const Extent gone = cut_to(old, first, end);
    if (freed != nullptr) append_run(*freed, {gone.volume_unit, gone.count});
    mapped_units_ -= gone.count;
    if (old.file_unit < first) {
      it->second.count = first - old.file_unit;
      ++it;
    } else {
      it = tree_->erase(it);
    }
    if (old.end() > end) {
      const Extent rest = cut_to(old, end, old.end());
      tree_->emplace(rest.file_unit, Place{rest.count, rest.volume_unit, rest.unwritten});
      return;
    }
  }
}

void ExtentMap::insert(const Extent& extent) {
  Extent merged = extent;
  auto next = tree_->lower_bound(extent.file_unit);
  if (next != tree_->end() && continues(merged, extent_at(next))) {
    merged.count += next->second.count;
    next = tree_->erase(next);
  }
  mapped_units_ += extent.count;
  if (next != tree_->begin()) {
    const auto before = std::prev(next);
    if (continues(extent_at(before), merged)) {
      before->second.count += merged.count;
      return;
    }
  }
  tree_->emplace_hint(next, merged.file_unit, Place{merged.count, merged.volume_unit, merged.unwritten});
}

void ExtentMap::grow_tree() {
  if (tree_) return;
  tree_ = std::make_unique<Tree>();
  if (mapped_units_ > 0) tree_->emplace(only_.file_unit, Place{only_.count, only_.volume_unit, only_.unwritten});
}

void ExtentMap::fold_tree() {
  if (tree_->size() > 1) return;
  only_ = tree_->empty() ? Extent{} : extent_at(tree_->begin());
  tree_.reset();
}

}  // namespace brickfs
