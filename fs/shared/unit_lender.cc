// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/unit_lender.h"

#include <algorithm>

#include "transport/base/log.h"

namespace brickfs::shared {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAskedBackFor{15};  // who does not answer is expelled before that
constexpr std::chrono::seconds kTriedAgain{1};
constexpr std::chrono::seconds kTakenFor{2};  // a write under way, at the end
constexpr std::chrono::seconds kStopsFor{2};  // then what waits for bricks is lent yet

uint64_t block_of_run(UnitRun run) { return run.first / kUnitsPerBlock; }

}  // namespace

UnitLender::UnitLender(UnitLending& units, uint64_t number, std::function<void(SessionId session)> call,
                       std::chrono::milliseconds given_within)
    : units_(units), number_(number), call_(std::move(call)), bytes_(call_, given_within) {
  taker_ = Thread([this] { take_back_returned(); });
}

UnitLender::~UnitLender() { stop(); }

// --- lending

Lent UnitLender::lend(SessionId session, ClientId client, uint64_t blocks, const Interruption* by) {
  Lent lent;
  lent.lender = number_;
  lent.committed = bytes_.committed(session);
  {
    MutexLock lock(mutex_);
    if (is_closed_ || asked_back_.contains(session) || expelling_.contains(client)) return lent;
    if (bytes_.has_failed(session)) return lent;
    blocks = reserve(session, client, blocks);
  }
  lent.places = units_.writable_places();
  if (blocks == 0) return lent;
  lent.runs = units_.lend_units(blocks, client, by);
  MutexLock lock(mutex_);
  note_lent(session, client, lent.runs);
  const auto borrower = borrowers_.find(session);
  if (borrower != borrowers_.end()) borrower->second.coming -= blocks;
  return lent;
}

// So many of these, with those that others of its calls are being lent just now.
uint64_t UnitLender::reserve(SessionId session, ClientId client, uint64_t blocks) {
  Borrower& borrower = borrowers_[session];
  borrower.client = client;
  const uint64_t has = borrower.coming + static_cast<uint64_t>(std::ranges::count_if(
                                             blocks_, [&](const auto& one) { return one.second.session == session; }));
  blocks = std::min<uint64_t>(blocks, kMostLentBlocks - std::min<uint64_t>(kMostLentBlocks, has));
  borrower.coming += blocks;
  return blocks;
}

// A block that was a file's, and is free again, can be lent before the end of its former lending is through: it goes
// back behind that. What comes for a member that has ended was never told to it.
void UnitLender::note_lent(SessionId session, ClientId client, std::vector<UnitRun>& runs) {
  std::erase_if(runs, [&](const UnitRun& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [at, is_new] = blocks_.try_emplace(block_of_run(run));
    Block& block = at->second;
    if (!is_new) block.was_lent_again = true;
    if (!is_new) return true;
    block.session = session;
    block.client = client;
    block.lent.set();
    block.outstanding = kUnitsPerBlock;
    return false;
  });
  if (borrowers_.contains(session) && !is_closed_) return;
  for (const UnitRun& run : runs) blocks_.at(block_of_run(run)).lent.reset();
  if (!runs.empty()) queue({std::exchange(runs, {}), client});
}

bool UnitLender::take_from(SessionId session, UnitRun run) {
  const uint64_t first = run.first % kUnitsPerBlock;
  if (run.count == 0 || run.count > kUnitsPerBlock - first) return false;
  const auto found = blocks_.find(block_of_run(run));
  if (found == blocks_.end() || found->second.session != session) return false;
  for (uint64_t unit = first; unit < first + run.count; ++unit)
    if (!found->second.lent.test(unit)) return false;
  for (uint64_t unit = first; unit < first + run.count; ++unit) found->second.lent.reset(unit);
  return true;
}

void UnitLender::put_back(UnitRun run) {
  Block& block = blocks_.at(block_of_run(run));
  for (uint64_t unit = 0; unit < run.count; ++unit) block.lent.set(run.first % kUnitsPerBlock + unit);
}

Result<UnitLender::Taken> UnitLender::take(SessionId session, uint64_t lender, std::span<const UnitRun> runs) {
  MutexLock lock(mutex_);
  if (is_closed_ || lender != number_) return Error(EAGAIN, "units that are not lent from here");
  if (bytes_.has_failed(session)) return Error(EAGAIN, "a member that is to be expelled");
  for (size_t i = 0; i < runs.size(); ++i) {
    if (take_from(session, runs[i])) continue;
    for (const UnitRun& run : runs.first(i)) put_back(run);
    return Error(EAGAIN, "units that are not lent to this member");
  }
  ++taken_;
  return Taken(*this, runs);
}

UnitLender::Taken::~Taken() {
  if (lender_ == nullptr) return;
  MutexLock lock(lender_->mutex_);
  --lender_->taken_;
  lender_->queue({std::move(runs_)});
}

void UnitLender::Taken::are_a_files() {
  UnitLender& lender = *std::exchange(lender_, nullptr);
  lender.settle(runs_);
  MutexLock lock(lender.mutex_);
  --lender.taken_;
  lender.changed_.notify_all();
}

void UnitLender::settle(std::span<const UnitRun> runs) {
  std::vector<uint64_t> ended;
  {
    MutexLock lock(mutex_);
    for (const UnitRun& run : runs) {
      const auto block = blocks_.find(block_of_run(run));
      if ((block->second.outstanding -= run.count) == 0) ended.push_back(block->first);
    }
  }
  for (const uint64_t index : ended) end_block(index);
}

void UnitLender::end_block(uint64_t index) {
  const UnitRun whole{index * kUnitsPerBlock, kUnitsPerBlock};
  MutexLock lock(mutex_);
  const auto block = blocks_.find(index);
  do {
    const bool was_lent_again = std::exchange(block->second.was_lent_again, false);
    lock.unlock();
    units_.end_lending(whole);
    if (was_lent_again) units_.free_units(std::span(&whole, 1));
    lock.lock();
  } while (block->second.was_lent_again);
  blocks_.erase(block);
}

// --- taking back

void UnitLender::queue(Returned returned) {
  if (returned.expels) ++expelling_[*returned.expels];
  returned_.push_back(std::move(returned));
  changed_.notify_all();
}

void UnitLender::give_back(SessionId session, const ReturnUnits& given) {
  MutexLock lock(mutex_);
  Returned returned;
  for (const UnitRun& run : given.runs) {
    if (given.lender != number_ || !take_from(session, run)) continue;
    returned.runs.push_back(run);
    if (given.is_in_doubt) returned.expels = blocks_.at(block_of_run(run)).client;
  }
  if (!returned.runs.empty()) queue(std::move(returned));
  if (given.is_wanted_back) asked_back_.erase(session);
  changed_.notify_all();
}

bool UnitLender::wants_back(SessionId session) const {
  MutexLock lock(mutex_);
  return asked_back_.contains(session);
}

void UnitLender::end(SessionId session) {
  bytes_.end(session);
  MutexLock lock(mutex_);
  Returned returned;
  for (auto& [index, block] : blocks_) {
    if (block.session != session) continue;
    for (uint64_t unit = 0; unit < kUnitsPerBlock; ++unit) {
      if (!block.lent.test(unit)) continue;
      const uint64_t at = index * kUnitsPerBlock + unit;
      if (!returned.runs.empty() && returned.runs.back().end() == at && unit > 0) {
        ++returned.runs.back().count;
      } else {
        returned.runs.push_back({at, 1});
      }
    }
    block.lent.reset();
  }
  asked_back_.erase(session);
  const auto borrower = borrowers_.extract(session);
  if (borrower.empty()) return changed_.notify_all();
  returned.expels = borrower.mapped().client;  // also if it has given all back: the bricks let it write yet
  queue(std::move(returned));
}

// Of all members, at once: whoever asks needs room now.
void UnitLender::ask_back(const Interruption* by) {
  std::set<SessionId> members;
  MutexLock lock(mutex_);
  if (is_closed_) return;
  for (const auto& [index, block] : blocks_)
    if (block.lent.any()) members.insert(block.session);
  asked_back_.insert(members.begin(), members.end());
  for (const SessionId session : members) call_(session);
  const auto until = Clock::now() + kAskedBackFor;
  const auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool all_answered = std::ranges::none_of(
        members, [&](SessionId one) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return asked_back_.contains(one); });
    const bool all_tried = std::ranges::all_of(returned_, &Returned::was_tried);
    return stopping_ || is_closed_ || (all_answered && all_tried && under_way_ == 0);
  };
  while (!is_over() && Clock::now() < until && Interruption::check(by).ok())
    changed_.wait_until(lock, std::min(until, Clock::now() + std::chrono::milliseconds(50)));
  for (const SessionId session : members) asked_back_.erase(session);
}

bool UnitLender::take_back(const Returned& returned) {
  if (returned.expels && !units_.expel_client(*returned.expels).ok()) return false;
  if (!returned.runs.empty() && !units_.clear_units(returned.runs, &gives_up_).ok()) return false;
  settle(returned.runs);
  units_.free_units(returned.runs);
  if (!returned.expels) return true;
  MutexLock lock(mutex_);
  if (--expelling_[*returned.expels] == 0) expelling_.erase(*returned.expels);
  return true;
}

// What cannot be taken back now is tried again; at the end once.
void UnitLender::take_back_returned() {
  MutexLock lock(mutex_);
  while (!returned_.empty() || !stopping_) {
    if (returned_.empty()) {
      changed_.wait(lock);
      continue;
    }
    std::deque<Returned> some;
    some.swap(returned_);
    under_way_ = some.size();
    lock.unlock();
    std::erase_if(some, [this](const Returned& one) { return take_back(one); });
    lock.lock();
    under_way_ = 0;
    for (Returned& one : some) one.was_tried = true;
    changed_.notify_all();
    if (stopping_) continue;  // with what has been queued meanwhile
    returned_.insert(returned_.end(), some.begin(), some.end());
    if (!some.empty()) changed_.wait_for(lock, kTriedAgain);
  }
  has_stopped_ = true;
  changed_.notify_all();
}

void UnitLender::close() {
  const auto until = Clock::now() + kTakenFor;
  MutexLock lock(mutex_);
  is_closed_ = true;
  while (taken_ > 0 && Clock::now() < until) changed_.wait_until(lock, until);
}

void UnitLender::stop() {
  close();
  {
    const auto until = Clock::now() + kStopsFor;
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    while (!has_stopped_ && Clock::now() < until) changed_.wait_until(lock, until);
  }
  gives_up_.raise();
  if (taker_.joinable()) taker_.join();
}

}  // namespace brickfs::shared
