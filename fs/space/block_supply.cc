// SPDX-License-Identifier: Apache-2.0
// Keeps blocks allocated and mapped ahead of need and gives empty ones back: one thread for each brick, one call to it
// at a time, so that a brick that is away holds up no other. While data takes blocks it keeps more and more ahead; soon
// after that has ended, just the standing number.
#include <algorithm>
#include <utility>

#include "fs/space/space_state.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/store_trouble.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kNoneTaken{150};   // without blocks taken: back to the standing number
constexpr std::chrono::milliseconds kRetryAfter{200};  // a call failed

}  // namespace

Space::Impl::Supply::Supply(Place& brick_in, BlockRun addresses_in, BlockBudget::For what)
    : brick(brick_in),
      addresses(addresses_in),
      budget(brick_in.session().capacity_blocks, brick_in.session().memory_blocks, addresses_in, what) {}

// What others left of the brick comes first, so that nobody else gets what we have before the reserve is whole: only
// what it then lacks is taken of blocks that hold anything, as these must be made zeros. Those that are zeros already
// are as good as what the brick gives.
Status Space::Impl::first_supply(Supply& supply, bool unused_are_zeros) {
  const auto fill = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) -> Status {
    while (supply_step(supply)) {
    }
    return supply.calls_failed > 0 ? Status(supply.last_failure) : Status();
  };
  MutexLock lock(mutex);
  supply.ahead = supply.budget.standing();
  if (!unused_are_zeros) TRY(fill());
  const BlockRuns kept = take_for_reserve(supply);
  if (!unused_are_zeros && !kept.empty()) {
    lock.unlock();
    TRY(make_zeros(kept));
    lock.lock();
  }
  for (auto run = kept.run_from(0); run; run = kept.run_from(run->end())) supply.budget.make_fresh(*run);
  TRY(return_unused(supply));
  return fill();
}

BlockRuns Space::Impl::take_for_reserve(Supply& supply) {
  const uint64_t held = supply.budget.held();
  uint64_t lacking = held > supply.budget.fresh() ? held - supply.budget.fresh() : 0;
  BlockRuns kept;
  for (BlockRun& run : supply.unused) {
    const uint64_t count = std::min(run.count, lacking);
    if (count > 0) kept.insert({run.first, count});
    run = {run.first + count, run.count - count};
    lacking -= count;
  }
  return kept;
}

// Durably: the journal takes its blocks for zeros.
Status Space::Impl::make_zeros(const BlockRuns& blocks) {
  std::vector<std::byte> zeros(kBlockBytes);
  for (auto run = blocks.run_from(0); run; run = blocks.run_from(run->end())) {
    for (uint64_t i = 0; i < run->count; ++i) {
      const Piece piece{(run->first + i) * kBlockBytes, {{zeros.data(), static_cast<uint32_t>(zeros.size()), 0}}};
      TRY(volume.write({&piece, 1}, Stage::kJournal));
    }
  }
  log::info("{} block(s) that were left behind are the reserve's: the brick is full", blocks.size());
  return volume.commit();
}

Status Space::Impl::return_unused(Supply& supply) {
  uint64_t returned = 0;
  for (BlockRun run : std::exchange(supply.unused, {})) {
    while (run.count > 0) {
      const BlockRun part{run.first, std::min(run.count, limits::kBlocksPerCall)};
      TRY(return_blocks(supply, part));
      run = {part.end(), run.count - part.count};
      returned += part.count;
    }
  }
  if (returned > 0) log::info("freed {} block(s) that nothing refers to", returned);
  return {};
}

void Space::Impl::supply_loop(Supply& supply) {
  MutexLock lock(mutex);
  while (!stopping) {
    if (supply_step(supply)) continue;
    if (supply.trims_done != trims_wanted) {
      supply.trims_done = trims_wanted;
      supplied.notify_all();
    }
    const auto now = Clock::now();
    if (now < supply.retry_at) {
      supply.wanted.wait_until(lock, supply.retry_at);
    } else if (!is_quiet(supply)) {
      supply.wanted.wait_until(lock, supply.last_taken + kNoneTaken);
    } else {
      supply.wanted.wait(lock);
    }
  }
}

void Space::Impl::tell_supplies() {
  for (const auto& supply : supplies) supply->wanted.notify_one();
}

Status Space::Impl::give_all_back() {
  const auto beyond = [](uint64_t blocks, uint64_t others) { return blocks - std::min(blocks, others); };
  MutexLock lock(mutex);
  for (const auto& supply : supplies) {
    while (!supply->in_doubt.empty()) TRY(settle_doubt(*supply));
    while (true) {
      auto blocks = data.remove_empty(limits::kBlocksPerCall, supply->addresses);
      const uint64_t excess = beyond(supply->budget.fresh(), supply->budget.held_when_closed());
      if (!blocks) blocks = supply->budget.take_last_fresh(std::min(excess, limits::kBlocksPerCall));
      if (!blocks) break;
      TRY(return_blocks(*supply, *blocks));
    }
    const uint64_t lacking = beyond(supply->budget.held_when_closed(), supply->budget.fresh());
    if (const uint64_t blocks = std::min(lacking, supply->budget.allocatable()); blocks > 0) fetch(*supply, blocks);
    while (!supply->in_doubt.empty()) TRY(settle_doubt(*supply));
  }
  return {};
}

Status Space::Impl::wait_for_supply(MutexLock& lock, Supply& supply, uint64_t blocks, const Interruption* by) {
  const uint64_t done = supply.calls_done;
  const uint64_t failed = supply.calls_failed;
  supply.demand += blocks;
  supply.wanted.notify_one();
  Status waited;
  while (supply.calls_done == done && !stopping && waited.ok()) waited = wait_interruptibly(supplied, lock, by);
  supply.demand -= blocks;
  TRY(waited);
  if (stopping) return Error(ECANCELED, "unmounting");
  return supply.calls_failed != failed ? Status(supply.last_failure) : Status();
}

void Space::Impl::note_block_taken(Supply& supply) {
  supply.last_taken = Clock::now();
  supply.wanted.notify_one();
}

void Space::Impl::note_progress(Supply& supply, const Status& status) {
  ++supply.calls_done;
  if (!status.ok() && !is_out_of_space(status)) {
    ++supply.calls_failed;
    supply.last_failure = status.error();
    supply.retry_at = Clock::now() + kRetryAfter;
  }
  supplied.notify_all();
  supply.wanted.notify_one();
}

bool Space::Impl::supply_step(Supply& supply) {
  if (supply.demand == 0 && Clock::now() < supply.retry_at) return false;
  if (supply.refresh_wanted) {
    refresh(supply);
    return true;
  }
  if (const uint64_t blocks = blocks_to_fetch(supply); blocks > 0) {
    fetch(supply, blocks);
    return true;
  }
  if (!supply.in_doubt.empty()) {
    static_cast<void>(settle_doubt(supply));
    return true;
  }
  if (const auto blocks = supply.budget.next_to_map(wanted_ahead(supply))) {
    mutex.unlock();
    supply.brick.map_ahead(blocks->range());
    mutex.lock();
    return true;
  }
  if (const auto blocks = next_to_return(supply)) {
    if (const Status status = return_blocks(supply, *blocks); !status.ok() && status.code() != ECANCELED) {
      log::warn("empty blocks could not be given back to the brick ({}); this will be tried again",
                status.error().what());
    }
    return true;
  }
  return false;
}

bool Space::Impl::is_quiet(const Supply& supply) const {
  return supply.trims_done != trims_wanted || Clock::now() - supply.last_taken >= kNoneTaken;
}

uint64_t Space::Impl::wanted_ahead(const Supply& supply) const {
  return (is_quiet(supply) ? supply.budget.standing() : supply.ahead) + supply.demand;
}

uint64_t Space::Impl::blocks_to_fetch(const Supply& supply) const {
  const bool quiet = is_quiet(supply);
  const uint64_t wanted = supply.budget.held() + wanted_ahead(supply);
  // Empty blocks serve data as well as fresh ones do, but are not kept for long.
  const uint64_t have = supply.budget.fresh() + (quiet ? 0 : data.empty_blocks(supply.addresses));
  if (have >= wanted) return 0;
  if (!quiet && supply.demand == 0 && have > supply.budget.held() + supply.ahead / 2) return 0;  // in few large calls
  return std::min({wanted - have, supply.budget.allocatable(), limits::kBlocksPerCall});
}

std::optional<BlockRun> Space::Impl::next_to_return(Supply& supply) {
  const uint64_t empty = data.empty_blocks(supply.addresses);
  if (is_quiet(supply)) {
    if (empty > 0) return data.remove_empty(limits::kBlocksPerCall, supply.addresses);
    const uint64_t kept = supply.budget.held() + wanted_ahead(supply);
    return supply.budget.take_last_fresh(supply.budget.fresh() > kept ? supply.budget.fresh() - kept : 0);
  }
  const uint64_t have = empty + supply.budget.fresh_for_data();
  const uint64_t excess = have > wanted_ahead(supply) ? have - wanted_ahead(supply) : 0;
  return data.remove_empty(std::min({empty, excess, limits::kBlocksPerCall}), supply.addresses);
}

void Space::Impl::fetch(Supply& supply, uint64_t blocks) {
  const auto now = Clock::now();
  if (now - supply.last_fetch < kNoneTaken && !is_quiet(supply))
    supply.ahead = std::min(2 * supply.ahead, supply.budget.most_ahead());
  if (is_quiet(supply)) supply.ahead = supply.budget.standing();
  supply.last_fetch = now;

  const BlockRun run = supply.budget.begin_alloc(blocks);
  const uint64_t version = supply.budget.version();
  const Status status = alloc_on_brick(supply, run);
  if (status.ok()) {
    supply.budget.make_fresh(run);
  } else if (is_out_of_space(status)) {
    mutex.unlock();
    const auto stat = supply.brick.stat();
    mutex.lock();
    if (stat.ok()) supply.trouble = brickfs::store_trouble(stat->medium);
    const uint64_t given = stat.ok() ? stat->allocatable_blocks : 0;
    if (!supply.budget.cap_allocatable(given < blocks ? given : blocks / 2, version)) supply.refresh_wanted = true;
  } else if (status.code() != ECANCELED) {
    log::warn("no blocks from the brick: {}", status.error().what());
  }
  note_progress(supply, status);
}

Status Space::Impl::return_blocks(Supply& supply, BlockRun blocks) {
  supply.budget.begin_free(blocks.count);
  const Status status = free_on_brick(supply, blocks);
  note_progress(supply, status);
  return status;
}

Status Space::Impl::settle_doubt(Supply& supply) {
  const BlockRun blocks = supply.in_doubt.front();
  supply.in_doubt.pop_front();
  return return_blocks(supply, blocks);
}

Status Space::Impl::alloc_on_brick(Supply& supply, BlockRun blocks) {
  mutex.unlock();
  const Status status = supply.brick.alloc(blocks.range());
  mutex.lock();
  const bool doubtful = status.code() == EIO;  // no answer in time (soft), or one that says nothing
  if (doubtful) supply.in_doubt.push_back(blocks);
  supply.budget.end_alloc(blocks, status.ok() || doubtful);
  return status;
}

Status Space::Impl::free_on_brick(Supply& supply, BlockRun blocks) {
  mutex.unlock();
  Status status = supply.brick.free(blocks.range());
  mutex.lock();
  if (status.code() == ENOENT) status = Status();  // they were in doubt
  if (!status.ok()) supply.in_doubt.push_back(blocks);
  supply.budget.end_free(blocks.count, status.ok());
  return status;
}

void Space::Impl::refresh(Supply& supply) {
  supply.refresh_wanted = false;
  supply.last_refresh = Clock::now();
  const uint64_t version = supply.budget.version();
  mutex.unlock();
  const auto stat = supply.brick.stat();
  mutex.lock();
  if (stat.ok()) supply.budget.set_allocatable(stat->allocatable_blocks, version);
  if (stat.ok()) supply.trouble = brickfs::store_trouble(stat->medium);
  note_progress(supply, stat.ok() ? Status() : Status(stat.error()));
}

}  // namespace brickfs
