// SPDX-License-Identifier: Apache-2.0
// Keeps blocks allocated and mapped ahead of need and gives empty ones back: one thread, one call to the brick at a
// time. While data takes blocks it keeps more and more ahead; soon after that has ended, just the standing number.
#include <algorithm>

#include "fs/space/space_state.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/store_trouble.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kQuiet{150};       // without blocks taken: back to the standing number
constexpr std::chrono::milliseconds kRetryAfter{200};  // a call failed

}  // namespace

Status Space::Impl::first_supply() {
  MutexLock lock(mutex);
  ahead = budget.standing();
  while (supply_step()) {
  }
  return calls_failed > 0 ? Status(last_failure) : Status();
}

void Space::Impl::supply_loop() {
  MutexLock lock(mutex);
  while (!stopping) {
    if (supply_step()) continue;
    if (trims_done != trims_wanted) {
      trims_done = trims_wanted;
      supplied.notify_all();
    }
    const auto now = Clock::now();
    if (now < retry_at) {
      supply_wanted.wait_until(lock, retry_at);
    } else if (!is_quiet()) {
      supply_wanted.wait_until(lock, last_taken + kQuiet);
    } else {
      supply_wanted.wait(lock);
    }
  }
}

Status Space::Impl::give_all_back() {
  MutexLock lock(mutex);
  while (!in_doubt.empty()) TRY(settle_doubt());
  while (true) {
    auto blocks = data.remove_empty(limits::kBlocksPerCall);
    if (!blocks) blocks = budget.take_last_fresh(limits::kBlocksPerCall);
    if (!blocks) return {};
    TRY(return_blocks(*blocks));
  }
}

Status Space::Impl::wait_for_supply(MutexLock& lock, uint64_t blocks, const Interruption* by) {
  const uint64_t done = calls_done;
  const uint64_t failed = calls_failed;
  demand += blocks;
  supply_wanted.notify_one();
  Status waited;
  while (calls_done == done && !stopping && waited.ok()) waited = wait_interruptibly(supplied, lock, by);
  demand -= blocks;
  TRY(waited);
  if (stopping) return Error(ECANCELED, "unmounting");
  return calls_failed != failed ? Status(last_failure) : Status();
}

void Space::Impl::note_block_taken() {
  last_taken = Clock::now();
  supply_wanted.notify_one();
}

void Space::Impl::note_progress(const Status& status) {
  ++calls_done;
  if (!status.ok() && !is_out_of_space(status)) {
    ++calls_failed;
    last_failure = status.error();
    retry_at = Clock::now() + kRetryAfter;
  }
  supplied.notify_all();
  supply_wanted.notify_one();
}

bool Space::Impl::supply_step() {
  if (demand == 0 && Clock::now() < retry_at) return false;
  if (refresh_wanted) {
    refresh();
    return true;
  }
  if (const uint64_t blocks = blocks_to_fetch(); blocks > 0) {
    fetch(blocks);
    return true;
  }
  if (!in_doubt.empty()) {
    static_cast<void>(settle_doubt());
    return true;
  }
  if (const auto blocks = budget.next_to_map(wanted_ahead())) {
    mutex.unlock();
    volume.map_ahead(blocks->range());
    mutex.lock();
    return true;
  }
  if (const auto blocks = next_to_return()) {
    if (const Status status = return_blocks(*blocks); !status.ok() && status.code() != ECANCELED) {
      log::warn("empty blocks could not be given back to the brick ({}); this will be tried again",
                status.error().what());
    }
    return true;
  }
  return false;
}

bool Space::Impl::is_quiet() const { return trims_done != trims_wanted || Clock::now() - last_taken >= kQuiet; }

uint64_t Space::Impl::wanted_ahead() const { return (is_quiet() ? budget.standing() : ahead) + demand; }

uint64_t Space::Impl::blocks_to_fetch() const {
  const bool quiet = is_quiet();
  const uint64_t wanted = budget.held() + wanted_ahead();
  // Empty blocks serve data as well as fresh ones do, but are not kept for long.
  const uint64_t have = budget.fresh() + (quiet ? 0 : data.empty_blocks());
  if (have >= wanted) return 0;
  if (!quiet && demand == 0 && have > budget.held() + ahead / 2) return 0;  // in few large calls
  return std::min({wanted - have, budget.allocatable(), limits::kBlocksPerCall});
}

std::optional<BlockRun> Space::Impl::next_to_return() {
  const uint64_t empty = data.empty_blocks();
  if (is_quiet()) {
    if (empty > 0) return data.remove_empty(limits::kBlocksPerCall);
    const uint64_t kept = budget.held() + wanted_ahead();
    return budget.take_last_fresh(budget.fresh() > kept ? budget.fresh() - kept : 0);
  }
  const uint64_t have = empty + budget.fresh_for_data();
  const uint64_t excess = have > wanted_ahead() ? have - wanted_ahead() : 0;
  return data.remove_empty(std::min({empty, excess, limits::kBlocksPerCall}));
}

void Space::Impl::fetch(uint64_t blocks) {
  const auto now = Clock::now();
  if (now - last_fetch < kQuiet && !is_quiet()) ahead = std::min(2 * ahead, budget.most_ahead());
  if (is_quiet()) ahead = budget.standing();
  last_fetch = now;

  const BlockRun run = budget.begin_alloc(blocks);
  const Status status = alloc_on_brick(run);
  if (status.ok()) {
    budget.make_fresh(run);
  } else if (is_out_of_space(status)) {
    mutex.unlock();
    const auto stat = volume.stat();
    mutex.lock();
    if (stat.ok()) trouble = brickfs::store_trouble(stat->medium);
    const uint64_t given = stat.ok() ? stat->allocatable_blocks : 0;
    budget.cap_allocatable(given < blocks ? given : blocks / 2);
  } else if (status.code() != ECANCELED) {
    log::warn("no blocks from the brick: {}", status.error().what());
  }
  note_progress(status);
}

Status Space::Impl::return_blocks(BlockRun blocks) {
  budget.begin_free(blocks.count);
  const Status status = free_on_brick(blocks);
  note_progress(status);
  return status;
}

Status Space::Impl::settle_doubt() {
  const BlockRun blocks = in_doubt.front();
  in_doubt.pop_front();
  return return_blocks(blocks);
}

Status Space::Impl::alloc_on_brick(BlockRun blocks) {
  mutex.unlock();
  const Status status = volume.alloc(blocks.range());
  mutex.lock();
  const bool doubtful = status.code() == EIO;  // no answer in time (soft), or one that says nothing
  if (doubtful) in_doubt.push_back(blocks);
  budget.end_alloc(blocks, status.ok() || doubtful);
  return status;
}

Status Space::Impl::free_on_brick(BlockRun blocks) {
  mutex.unlock();
  Status status = volume.free(blocks.range());
  mutex.lock();
  if (status.code() == ENOENT) status = Status();  // they were in doubt
  if (!status.ok()) in_doubt.push_back(blocks);
  budget.end_free(blocks.count, status.ok());
  return status;
}

void Space::Impl::refresh() {
  refresh_wanted = false;
  last_refresh = Clock::now();
  const uint64_t version = budget.version();
  mutex.unlock();
  const auto stat = volume.stat();
  mutex.lock();
  if (stat.ok()) budget.set_allocatable(stat->allocatable_blocks, version);
  if (stat.ok()) trouble = brickfs::store_trouble(stat->medium);
  note_progress(stat.ok() ? Status() : Status(stat.error()));
}

}  // namespace brickfs
