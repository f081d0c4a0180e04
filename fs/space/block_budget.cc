// SPDX-License-Identifier: Apache-2.0
#include "fs/space/block_budget.h"

#include <algorithm>

#include "transport/base/check.h"

namespace brickfs {
namespace {

// What is there beside the journal's room when a checkpoint is about to be in force: the superblock, the block of
// journal begun when the room was used up, the one that the checkpoint begins, the spare, and the last blocks of both
// checkpoints. A margin of one.
constexpr uint64_t kBesideJournal = 7;
// The journal's rows add to the next checkpoint, and that one to its successor.
constexpr uint64_t kPerJournalBlock = 2;
constexpr uint64_t kLeastReserve = kBesideJournal + kPerJournalBlock;
constexpr uint64_t kMostBaseReserve = 16;
constexpr uint64_t kMostStanding = 4;
constexpr uint64_t kMostAhead = 32;

uint64_t base_reserve_of(uint64_t capacity) {
  return std::min(std::clamp(capacity / 16, kLeastReserve, kMostBaseReserve), capacity / 2);
}

}  // namespace

BlockBudget::BlockBudget(uint64_t capacity_blocks, uint64_t memory_blocks, BlockRun addresses, For what)
    : capacity_(capacity_blocks),
      standing_(std::clamp<uint64_t>(capacity_blocks / 64, 1, kMostStanding)),
      most_ahead_(std::clamp(std::min(memory_blocks, capacity_blocks) / 8, standing_, kMostAhead)),
      base_reserve_(what == For::kMetadataToo ? base_reserve_of(capacity_blocks) : 0),
      reserve_(base_reserve_),
      addresses_(addresses),
      next_(addresses.first),
      end_(addresses.end()) {}

void BlockBudget::set_metadata_bytes(uint64_t live_bytes) {
  twice_rows_ = 2 * (live_bytes / kBlockBytes);
  reserve_ = std::min(base_reserve_ + twice_rows_, std::max(base_reserve_, capacity_ / 2));
}

uint64_t BlockBudget::least_for_metadata() const { return std::min(base_reserve_, kLeastReserve) + twice_rows_; }

bool BlockBudget::metadata_has_room() const { return blocks_for_metadata() >= least_for_metadata(); }

uint64_t BlockBudget::held_when_closed() const {
  const uint64_t wanted = std::min(least_for_metadata(), reserve_);
  return wanted > metadata_.size() ? wanted - metadata_.size() : 0;
}

uint64_t BlockBudget::most_held_when_closed(uint64_t metadata_blocks, uint64_t row_bytes) {
  const uint64_t most = kLeastReserve + 2 * (row_bytes / kBlockBytes);
  return most > metadata_blocks ? most - metadata_blocks : 0;
}

uint64_t BlockBudget::journal_room() const {
  const uint64_t sure = std::min(blocks_for_metadata(), reserve_);
  const uint64_t beside = kBesideJournal + twice_rows_;
  return sure > beside + kPerJournalBlock ? (sure - beside) / kPerJournalBlock : 1;
}

BlockRun BlockBudget::take_fresh(uint64_t count, std::optional<uint64_t> goal) {
  std::optional<BlockRun> run;
  if (goal) run = fresh_.run_from(*goal);
  if (!run || run->first != *goal) run = fresh_.find(count);
  if (!run) run = fresh_.run_from(0);
  CHECK(run.has_value() && count > 0);
  run->count = std::min(run->count, count);
  fresh_.erase(*run);
  return *run;
}

std::optional<BlockRun> BlockBudget::take_fresh_exactly(uint64_t count) {
  const auto run = fresh_.find(count);
  if (run) fresh_.erase(*run);
  return run;
}

std::optional<BlockRun> BlockBudget::take_last_fresh(uint64_t most) {
  auto run = fresh_.last_run();
  if (!run || most == 0) return std::nullopt;
  const uint64_t count = std::min(run->count, most);
  run = BlockRun{run->end() - count, count};
  fresh_.erase(*run);
  return run;
}

std::optional<BlockRun> BlockBudget::next_to_map(uint64_t window) {
  for (auto run = fresh_.run_from(0); run && window > 0; run = fresh_.run_from(run->end())) {
    const uint64_t count = std::min(run->count, window);
    window -= count;
    const uint64_t first = std::max(run->first, mapped_before_);
    if (first >= run->first + count) continue;
    mapped_before_ = run->first + count;
    return BlockRun{first, mapped_before_ - first};
  }
  return std::nullopt;
}

BlockRun BlockBudget::begin_alloc(uint64_t count) {
  const BlockRun blocks{next_, count};
  next_ += count;
  allocatable_ -= std::min(allocatable_, count);
  coming_ += count;
  ++version_;
  return blocks;
}

void BlockBudget::end_alloc(BlockRun blocks, bool done) {
  coming_ -= blocks.count;
  if (!done) allocatable_ += blocks.count;
  ++version_;
}

void BlockBudget::begin_free(uint64_t count) {
  going_ += count;
  ++version_;
}

void BlockBudget::end_free(uint64_t count, bool done) {
  going_ -= count;
  if (done) allocatable_ += count;
  ++version_;
}

void BlockBudget::set_allocatable(uint64_t blocks, uint64_t version) {
  if (version == version_ && !under_way()) allocatable_ = blocks;
}

bool BlockBudget::cap_allocatable(uint64_t blocks, uint64_t version) {
  if (version + 1 != version_) return false;
  allocatable_ = std::min(allocatable_, blocks);
  return true;
}

void BlockBudget::place_beside(std::span<const BlockRun> found) {
  const uint64_t behind = found.empty() ? addresses_.first : std::max(found.back().end(), addresses_.first);
  if (behind < addresses_.first + addresses_.count / 2) {
    next_ = std::max(next_, behind);
    return;
  }
  next_ = end_ = behind;
  uint64_t before = addresses_.first;  // the end of the run before
  for (const BlockRun& run : found) {
    if (run.first > before && run.first - before > end_ - next_) {
      next_ = before;
      end_ = run.first;
    }
    before = std::max(before, run.end());
  }
}

uint64_t BlockBudget::available_to_data() const {
  const uint64_t all = fresh() + allocatable() + coming_ + going_;
  return all > held() ? all - held() : 0;
}

}  // namespace brickfs
