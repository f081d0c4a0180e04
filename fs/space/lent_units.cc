// SPDX-License-Identifier: Apache-2.0
// Units set aside for others to fill.
//
// A block is lent whole, so that what one machine writes is together, and its rows in an activity log
// (transport/volume) are one.
#include <algorithm>

#include "fs/space/space_state.h"
#include "transport/base/bytes.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

// With less room nothing is lent: so many units, or so much of all.
constexpr uint64_t kLittleRoomUnits = 64 * kMiB / kUnitBytes;
constexpr uint64_t kLittleRoomOf = 16;
constexpr std::chrono::seconds kNotLentFor{1};     // when somebody was short of room
constexpr std::chrono::seconds kAskedBackFor{30};  // longer than that takes

}  // namespace

std::vector<UnitRun> Space::lend(uint64_t blocks) { return impl_->lend(blocks); }

std::vector<UnitRun> Space::Impl::lend(uint64_t blocks) {
  MutexLock lock(mutex);
  std::vector<UnitRun> runs;
  if (stopping || Clock::now() < lends_from) return runs;
  while (runs.size() < blocks && may_lend()) {
    const auto run = take_block();
    if (!run) break;
    note_block_taken(supply_of(run->first / kUnitsPerBlock));
    lent_units += run->count;
    runs.push_back(*run);
  }
  return runs;
}

bool Space::Impl::may_lend() const {
  const uint64_t free = free_now();
  const uint64_t total = (data.blocks() + available_to_data()) * kUnitsPerBlock;
  return free >= std::max(kLittleRoomUnits, total / kLittleRoomOf) + kUnitsPerBlock;
}

std::optional<UnitRun> Space::Impl::take_block() {
  if (Supply* const supply = next_place()) {
    const BlockRun block = supply->budget.take_fresh(1, std::nullopt);
    data.add(block, kUnitsPerBlock);
    return UnitRun{block.first * kUnitsPerBlock, kUnitsPerBlock};
  }
  return data.empty_blocks() > 0 ? data.take_fitting(kUnitsPerBlock) : std::nullopt;
}

void Space::keep_lent(UnitRun run) {
  MutexLock lock(impl_->mutex);
  CHECK(run.count <= impl_->lent_units);
  impl_->lent_units -= run.count;
}

void Space::take_back(UnitRun run) {
  MutexLock lock(impl_->mutex);
  CHECK(run.count <= impl_->lent_units);
  impl_->lent_units -= run.count;
  impl_->data.give_back(run);
  if (impl_->data.empty_blocks() > 0) impl_->tell_supplies();
}

uint64_t Space::lent_units() const {
  MutexLock lock(impl_->mutex);
  return impl_->lent_units;
}

void Space::ask_back_by(std::function<void(const Interruption* by)> ask_back) {
  MutexLock lock(impl_->mutex);
  impl_->asks_back = std::move(ask_back);
}

bool Space::Impl::ask_back(const Interruption* by) {
  if (lent_units == 0 || !asks_back) return false;
  const auto ask = asks_back;
  lends_from = Clock::now() + kAskedBackFor;
  mutex.unlock();
  ask(by);
  mutex.lock();
  lends_from = Clock::now() + kNotLentFor;
  return true;
}

}  // namespace brickfs
