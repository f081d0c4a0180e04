// SPDX-License-Identifier: Apache-2.0
#include "fs/space/space.h"

#include <algorithm>
#include <utility>

#include "fs/base/block_ranges.h"
#include "fs/space/space_state.h"
#include "transport/base/check.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// From here on an allocation begins its own block at the next boundary rather than filling gaps elsewhere.
constexpr uint64_t kLargeUnits = 128;
constexpr std::chrono::milliseconds kRefreshEvery{1000};  // what the brick can give, when we are short
// What the kernel writes back may need a range of a file, or a thread, that the one who waits for it has: then nobody
// waits longer.
constexpr std::chrono::milliseconds kWaitForWriteback{5000};
constexpr std::chrono::milliseconds kLookForInterruption{50};

constexpr BlockRange kOfFileSystems{BlockAddress{0}, BlockBudget::kEndOfBlocks};  // behind it: docs/format.md, scratch

BlockRun blocks_touched(UnitRun run) {
  const uint64_t first = run.first / kUnitsPerBlock;
  return {first, divide_up(run.end(), kUnitsPerBlock) - first};
}

}  // namespace

Space::Space(VolumeSet& volume) : impl_(std::make_unique<Impl>(volume)) {}

Space::~Space() { static_cast<void>(impl_->end_supplies()); }

Space::Impl::Impl(VolumeSet& volume_in) : volume(volume_in) {
  if (!volume.is_striped()) {
    supplies.push_back(
        std::make_unique<Supply>(volume.member(0), BlockBudget::kAllAddresses, BlockBudget::For::kMetadataToo));
    return;
  }
  for (size_t place = 0; place < volume.places(); ++place) {
    const uint64_t first = block_index(first_block_of(place).end());
    const BlockRun addresses{first, block_index(first_block_of(place + 1).start) - first};
    supplies.push_back(std::make_unique<Supply>(volume.member(place), addresses,
                                                place == 0 ? BlockBudget::For::kMetadataToo : BlockBudget::For::kData));
  }
}

void Space::Impl::sort_by_place(std::span<const BlockRange> unused) {
  for (const BlockRange& blocks : unused) supplies[volume.place_of(blocks.start)]->unused.push_back(run_of(blocks));
}

// False: they had ended, or were never begun.
bool Space::Impl::end_supplies() {
  {
    MutexLock lock(mutex);
    stopping = true;
    tell_supplies();
    supplied.notify_all();
  }
  bool any = false;
  for (const auto& supply : supplies) {
    if (!supply->thread.joinable()) continue;
    supply->thread.join();
    any = true;
  }
  return any;
}

Status Space::adopt(UnitRun run) {
  MutexLock lock(impl_->mutex);
  if (impl_->budget().metadata().contains_any(blocks_touched(run)))
    return Error(EUCLEAN, "file data in a metadata block");
  return impl_->data.adopt(run);
}

Status Space::adopt_metadata(BlockRange blocks) {
  MutexLock lock(impl_->mutex);
  const BlockRun run = run_of(blocks);
  if (impl_->budget().metadata().contains_any(run) || impl_->data.contains_any(run)) {
    return Error(EUCLEAN, "metadata block used twice");
  }
  impl_->budget().metadata().insert(run);
  return {};
}

Status Space::start(std::span<const BlockRange> allocated, const Unused& unused, Hooks hooks) {
  for (const BlockRange& scratch : subtract(unused.blocks, {&kOfFileSystems, 1})) TRY(impl_->volume.free(scratch));
  std::vector<BrickStat> stats;
  for (const auto& supply : impl_->supplies) stats.push_back(TRY(supply->brick.stat()));
  {
    MutexLock lock(impl_->mutex);
    BlockRuns listed;
    std::vector<std::vector<BlockRun>> found(impl_->supplies.size());
    for (const BlockRange& blocks : allocated) {
      listed.insert(run_of(blocks));
      found[impl_->volume.place_of(blocks.start)].push_back(run_of(blocks));
    }
    impl_->sort_by_place(intersect(unused.blocks, {&kOfFileSystems, 1}));
    for (size_t place = 0; place < found.size(); ++place) {
      for (const BlockRun& run : impl_->supplies[place]->unused) found[place].push_back(run);
      std::ranges::sort(found[place], {}, &BlockRun::first);
      impl_->supplies[place]->budget.place_beside(found[place]);
    }
    std::vector<BlockRun> used = impl_->data.all();
    for (auto run = impl_->budget().metadata().run_from(0); run;
         run = impl_->budget().metadata().run_from(run->end())) {
      used.push_back(*run);
    }
    const auto is_listed = [&](BlockRun run) { return listed.contains_all(run); };
    if (!std::ranges::all_of(used, is_listed)) return Error(EUCLEAN, "a block in use is not on the brick");
    impl_->hooks = std::move(hooks);
    for (size_t place = 0; place < stats.size(); ++place) {
      BlockBudget& budget = impl_->supplies[place]->budget;
      budget.set_allocatable(stats[place].allocatable_blocks, budget.version());
    }
  }
  for (const auto& supply : impl_->supplies) TRY(impl_->first_supply(*supply, unused.are_zeros));
  for (const auto& supply : impl_->supplies) {
    supply->thread = Thread([impl = impl_.get(), one = supply.get()] { impl->supply_loop(*one); });
  }
  return {};
}

Status Space::stop() {
  if (!impl_->end_supplies()) return {};
  TRY(impl_->give_all_back());
  return lent_units() == 0 ? Status() : Error(EBUSY, "units that others may be writing to yet");
}

Result<std::vector<UnitRun>> Space::allocate(uint64_t units, uint64_t goal, const Interruption* by, For what) {
  return impl_->allocate(units, goal, by, what);
}

void Space::reserve_for_writeback(uint64_t units, std::function<void()> on_short) {
  MutexLock lock(impl_->mutex);
  impl_->on_short = std::move(on_short);
  impl_->reserve.set(units);
  impl_->settled.notify_all();
}

void Space::settle_writeback() {
  MutexLock lock(impl_->mutex);
  impl_->reserve.settle();
  impl_->settled.notify_all();
}

bool Space::is_short_for_writeback() const {
  MutexLock lock(impl_->mutex);
  return impl_->reserve.is_short();
}

void Space::release(UnitRun run, Lsn freed_by) {
  MutexLock lock(impl_->mutex);
  impl_->freed.push_back({freed_by, run});
  impl_->freed_units += run.count;
  impl_->reap();
}

void Space::discard(UnitRun run) {
  MutexLock lock(impl_->mutex);
  impl_->data.give_back(run);
  if (impl_->data.empty_blocks() > 0) impl_->tell_supplies();
}

// Whoever adds to what is freed does so before it looks at what is durable; here it is the other way round: one of the
// two reaps.
void Space::on_durable(Lsn durable) {
  impl_->raise_durable(durable);
  if (impl_->freed_units == 0) return;
  MutexLock lock(impl_->mutex);
  impl_->reap();
}

Result<BlockRange> Space::allocate_metadata(uint64_t blocks) { return impl_->allocate_metadata(blocks); }

Status Space::free_metadata(BlockRange blocks) { return impl_->free_metadata(run_of(blocks)); }

void Space::set_metadata_bytes(uint64_t live_bytes) {
  MutexLock lock(impl_->mutex);
  impl_->budget().set_metadata_bytes(live_bytes);
  impl_->supplies[0]->wanted.notify_one();
}

void Space::Impl::want_refresh() {
  for (const auto& supply : supplies) {
    if (Clock::now() - supply->last_refresh <= kRefreshEvery) continue;
    supply->refresh_wanted = true;
    supply->wanted.notify_one();
  }
}

std::string Space::store_trouble() const {
  MutexLock lock(impl_->mutex);
  impl_->want_refresh();
  for (const auto& supply : impl_->supplies) {
    if (!supply->trouble.empty()) return supply->trouble;
  }
  return {};
}

SpaceUsage Space::usage() const {
  Impl& impl = *impl_;
  MutexLock lock(impl.mutex);
  impl.want_refresh();
  SpaceUsage usage;
  usage.total_units = (impl.data.blocks() + impl.available_to_data()) * kUnitsPerBlock;
  usage.free_units = impl.budget().metadata_has_room() ? impl.free_now() + impl.freed_units + impl.lent_units : 0;
  usage.journal_room_blocks = impl.budget().journal_room();
  usage.metadata_free_blocks =
      impl.supplies.size() == 1 ? usage.free_units / kUnitsPerBlock : impl.budget().available_to_data();
  return usage;
}

Status Space::trim() {
  Impl& impl = *impl_;
  MutexLock lock(impl.mutex);
  std::vector<uint64_t> failed;
  for (const auto& supply : impl.supplies) failed.push_back(supply->calls_failed);
  const uint64_t ticket = ++impl.trims_wanted;
  impl.tell_supplies();
  Status result;
  for (size_t place = 0; place < impl.supplies.size(); ++place) {
    Impl::Supply& supply = *impl.supplies[place];
    while (supply.trims_done < ticket && !impl.stopping) impl.supplied.wait(lock);
    if (supply.calls_failed != failed[place]) result = supply.last_failure;
  }
  return result;
}

uint64_t Space::Impl::available_to_data() const {
  uint64_t blocks = 0;
  for (const auto& supply : supplies) blocks += supply->budget.available_to_data();
  return blocks;
}

uint64_t Space::Impl::free_now() const {
  if (!budget().metadata_has_room()) return 0;
  const uint64_t units = data.free_units() + available_to_data() * kUnitsPerBlock;
  return units > promised_units ? units - promised_units : 0;
}

void Space::Impl::raise_durable(Lsn lsn) {
  Lsn known = durable;
  while (raw(known) < raw(lsn) && !durable.compare_exchange_weak(known, lsn)) {
  }
}

void Space::Impl::reap() {
  bool emptied = false;
  // Entries stand nearly in order; one behind a later number waits for that too.
  while (!freed.empty() && raw(freed.front().by) <= raw(durable.load())) {
    const UnitRun run = freed.front().run;
    freed.pop_front();
    freed_units -= run.count;
    data.give_back(run);
    emptied = data.empty_blocks() > 0;
  }
  if (emptied) tell_supplies();
}

Result<std::vector<UnitRun>> Space::Impl::allocate(uint64_t units, uint64_t goal, const Interruption* by, For what) {
  CHECK(units > 0);
  MutexLock lock(mutex);
  TRY(keep_reserve(lock, units, by, what));
  TRY(promise(lock, units, by));
  std::vector<UnitRun> runs;
  uint64_t need = units;
  const Status status = take_promised(lock, goal, need, runs, by);
  if (status.ok()) return runs;
  promised_units -= need;
  for (const UnitRun& run : runs) data.give_back(run);
  return status.error();
}

Status Space::Impl::keep_reserve(MutexLock& lock, uint64_t units, const Interruption* by, For what) {
  const uint64_t free = free_now() + freed_units;
  if (reserve.look(free > units ? free - units : 0)) {
    const std::function<void()> tell = on_short;
    mutex.unlock();
    tell();
    mutex.lock();
  }
  const auto patience = Clock::now() + kWaitForWriteback;
  while (what == For::kAnything && reserve.is_contended() && !stopping && Clock::now() < patience) {
    if (by != nullptr && by->raised()) return Error(EINTR, "interrupted");
    settled.wait_for(lock, kLookForInterruption);
  }
  return {};
}

// That has not been asked for some time what it can give. Not one that could not answer.
Space::Impl::Supply* Space::Impl::stale_supply() {
  for (const auto& supply : supplies) {
    const bool away = supplies.size() > 1 && supply->brick.is_away();
    if (!away && Clock::now() - supply->last_refresh > kRefreshEvery) return supply.get();
  }
  return nullptr;
}

// Sets so many units aside, wherever they are, for take_promised().
Status Space::Impl::promise(MutexLock& lock, uint64_t units, const Interruption* by) {
  bool asked_back = false;
  while (units > free_now()) {
    if (units <= free_now() + freed_units) {
      mutex.unlock();
      const Status status = hooks.make_durable(by);
      const Lsn reached = hooks.durable();
      mutex.lock();
      TRY(status);
      raise_durable(reached);
      reap();
    } else if (Supply* const stale = stale_supply()) {
      stale->refresh_wanted = true;  // others may have given the brick's blocks back
      TRY(wait_for_supply(lock, *stale, 0, by));
    } else if (std::exchange(asked_back, true) || !ask_back(by)) {
      return Error(ENOSPC, "volume full");
    }
  }
  promised_units += units;
  return {};
}

Status Space::Impl::take_promised(MutexLock& lock, uint64_t goal, uint64_t& need, std::vector<UnitRun>& runs,
                                  const Interruption* by) {
  take_well_placed(goal, need, runs);
  while (need > 0) {
    Supply* const coming = data.empty_blocks() == 0 ? supply_that_can_bring() : nullptr;
    if (coming != nullptr) {
      TRY(wait_for_supply(lock, *coming, divide_up(need, kUnitsPerBlock), by));
      take_well_placed(runs.empty() ? goal : runs.back().end(), need, runs);
      continue;
    }
    const bool new_block = data.empty_blocks() > 0;
    const UnitRun run = data.take_any(need);
    if (run.count == 0) return Error(ENOSPC, "the brick gives less than it promised");
    take(run, need, runs);
    if (new_block) note_block_taken(supply_of(run.first / kUnitsPerBlock));
  }
  return {};
}

// The one with the most to give; one that is away only if nothing else is free.
Space::Impl::Supply* Space::Impl::supply_that_can_bring() {
  Supply* best = nullptr;
  bool best_is_away = false;
  for (const auto& supply : supplies) {
    const BlockBudget& budget = supply->budget;
    if ((budget.allocatable() == 0 && !budget.under_way()) || budget.available_to_data() == 0) continue;
    const bool away = supplies.size() > 1 && supply->brick.is_away();
    if (away && data.free_units() > 0) continue;
    const bool better = best == nullptr || (best_is_away && !away) ||
                        (best_is_away == away && budget.available_to_data() > best->budget.available_to_data());
    if (!better) continue;
    best = supply.get();
    best_is_away = away;
  }
  return best;
}

// Where the next block comes from, of the bricks that have a fresh one: each as often as it has room (smooth weighted
// round robin), so that all get full at the same time and neighbours are on different ones. Not from one that is away
// as long as another has room.
Space::Impl::Supply* Space::Impl::next_place() {
  if (supplies.size() == 1) return budget().fresh_for_data() > 0 ? supplies[0].get() : nullptr;
  const auto is_there = [](const auto& supply) {
    return !supply->brick.is_away() && supply->budget.available_to_data() > 0;
  };
  const bool away_too = std::ranges::none_of(supplies, is_there);
  Supply* best = nullptr;
  double total = 0;
  for (const auto& supply : supplies) {
    if (supply->budget.fresh_for_data() == 0 || (!away_too && supply->brick.is_away())) continue;
    const auto weight = static_cast<double>(supply->budget.available_to_data());
    supply->credit += weight;
    total += weight;
    if (best == nullptr || supply->credit > best->credit) best = supply.get();
  }
  if (best != nullptr) best->credit -= total;
  return best;
}

void Space::Impl::take(UnitRun run, uint64_t& need, std::vector<UnitRun>& runs) {
  need -= run.count;
  promised_units -= run.count;
  if (!runs.empty() && runs.back().end() == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

void Space::Impl::take_well_placed(uint64_t goal, uint64_t& need, std::vector<UnitRun>& runs) {
  if (goal != 0) {
    if (const UnitRun run = data.extend(goal, need); run.count > 0) {
      take(run, need, runs);
      goal = run.end();
    }
    if (need == 0) return;
  }
  const bool at_boundary = goal != 0 && goal % kUnitsPerBlock == 0;
  const std::optional<uint64_t> next_block = at_boundary ? std::optional(goal / kUnitsPerBlock) : std::nullopt;
  const auto has_fresh = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return std::ranges::any_of(supplies, [](const auto& supply) { return supply->budget.fresh_for_data() > 0; });
  };
  if (need < kUnitsPerBlock && !(at_boundary && need >= kLargeUnits && has_fresh())) {
    const uint64_t empty_before = data.empty_blocks();
    if (const auto run = data.take_fitting(need)) {
      take(*run, need, runs);
      if (data.empty_blocks() != empty_before) note_block_taken(supply_of(run->first / kUnitsPerBlock));
      return;
    }
  }
  while (need > 0) {
    Supply* const supply = next_place();
    if (supply == nullptr) return;
    const uint64_t fresh = supply->budget.fresh_for_data();
    // In a set block by block, each on the brick whose turn it is.
    const uint64_t wanted = supplies.size() > 1 ? 1 : std::min(divide_up(need, kUnitsPerBlock), fresh);
    const BlockRun blocks = supply->budget.take_fresh(wanted, next_block);
    const UnitRun run{blocks.first * kUnitsPerBlock, std::min(need, blocks.count * kUnitsPerBlock)};
    data.add(blocks, run.count);
    take(run, need, runs);
    note_block_taken(*supply);
  }
}

Result<BlockRange> Space::Impl::allocate_metadata(uint64_t blocks) {
  MutexLock lock(mutex);
  Supply& supply = *supplies[0];
  BlockBudget& budget = supply.budget;
  std::optional<BlockRun> run = budget.take_fresh_exactly(blocks);
  while (!run) {
    run = budget.begin_alloc(blocks);
    const Status status = alloc_on_brick(supply, *run);
    note_progress(supply, status);
    if (status.ok()) break;
    if (!is_out_of_space(status)) return status.error();
    // The supply thread may just have taken them for us.
    run = budget.take_fresh_exactly(blocks);
    if (run) break;
    if (!budget.under_way()) return status.error();
    TRY(wait_for_supply(lock, supply, 0));
    run = budget.take_fresh_exactly(blocks);
  }
  budget.metadata().insert(*run);
  supply.wanted.notify_one();
  return run->range();
}

Status Space::Impl::free_metadata(BlockRun blocks) {
  MutexLock lock(mutex);
  budget().metadata().erase(blocks);
  return return_blocks(*supplies[0], blocks);
}

}  // namespace brickfs
