// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/member_units.h"

#include <algorithm>
#include <utility>

#include "transport/volume/group.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// So many blocks are here while large writes go on; asked for when there are half of them.
constexpr uint64_t kBlocksAhead = 16;
constexpr seconds kUnusedFor{5};    // then they are given back
constexpr seconds kNoneLentFor{1};  // of a coordinator who had none
constexpr milliseconds kAskedForMore{20};
constexpr milliseconds kLookEvery{500};

uint32_t place_of_run(UnitRun run) { return static_cast<uint32_t>(place_of(group_of(run.address()))); }

}  // namespace

MemberUnits::MemberUnits(MemberBricks& bricks, bool keeps, Coordinator coordinator)
    : bricks_(bricks), keeps_(keeps), coordinator_(std::move(coordinator)) {
  keeper_ = Thread([this] { look_after(); });
}

MemberUnits::~MemberUnits() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  keeper_.join();
}

// --- writing

std::optional<WriteUnits> MemberUnits::fill(std::span<const LocalSlice> from) {
  const uint64_t length = total_bytes(from);
  auto filled = take(length);
  if (!filled) {
    ++passed_on_;
    return std::nullopt;
  }
  const StagedBytes staged = stage(*filled, from);
  const LocalSlice of_staged{staged == nullptr ? nullptr : staged->data(), static_cast<uint32_t>(filled->length), 0};
  const Status written = write(*filled, staged == nullptr ? from : std::span(&of_staged, 1));
  if (written.ok()) {
    if (keeps_) keep(*filled, staged);
    return filled;
  }
  ++passed_on_;
  written.code() == ENOTCONN ? put_back(*filled) : set_in_doubt(*filled);
  return std::nullopt;
}

std::optional<WriteUnits> MemberUnits::take(uint64_t length) {
  const uint64_t units = divide_up(length, kUnitBytes);
  MutexLock lock(mutex_);
  wanted_ = Clock::now();
  const bool is_full = keeps_ && kept_bytes_ + length > kMostKept;
  if (lender_ == 0 || is_stale_ || is_full || pooled() < units) {
    changed_.notify_all();
    return std::nullopt;
  }
  WriteUnits filled;
  filled.length = length;
  filled.lender = lender_;
  filled.runs = take_units(units);
  if (filled.runs.empty()) return std::nullopt;
  for (const UnitRun& run : filled.runs) {
    const size_t place = place_of_run(run);
    if (std::ranges::find(filled.places, place, &LentPlace::place) != filled.places.end()) continue;
    const auto told = std::ranges::find(places_, place, &LentPlace::place);
    filled.places.push_back(told == places_.end() ? LentPlace{place, {}} : *told);
  }
  filled.tag = ++last_tag_;
  if (keeps_) {
    kept_[filled.tag];
    kept_bytes_ += length;
  }
  if (pooled() < kBlocksAhead * kUnitsPerBlock / 2) changed_.notify_all();
  return filled;
}

// The foremost; none, if these were too many runs.
std::vector<UnitRun> MemberUnits::take_units(uint64_t units) {
  std::vector<UnitRun> runs;
  while (units > 0 && runs.size() < kMostFilledRuns) {
    UnitRun& front = pool_.front();
    const uint64_t count = std::min(front.count, units);
    runs.push_back({front.first, count});
    front = {front.first + count, front.count - count};
    if (front.count == 0) pool_.pop_front();
    units -= count;
  }
  if (units == 0) return runs;
  pool_.insert(pool_.end(), runs.begin(), runs.end());
  return {};
}

// Whoever writes may change his memory meanwhile, and all copies are to get the same, now and in a replay. Null: one
// brick gets them, and nobody else.
MemberUnits::StagedBytes MemberUnits::stage(const WriteUnits& filled, std::span<const LocalSlice> from) const {
  const bool has_copies = std::ranges::any_of(filled.places, [](const auto& place) { return place.bricks.size() > 1; });
  if (!keeps_ && !has_copies) return nullptr;
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(filled.length);
  for (const LocalSlice& slice : from) bytes->insert(bytes->end(), slice.data, slice.data + slice.length_bytes);
  return bytes;
}

Status MemberUnits::write(const WriteUnits& filled, std::span<const LocalSlice> from) {
  for (const LentPlace& place : filled.places)
    TRY(bricks_.prepare_to_write(static_cast<uint32_t>(place.place), place.bricks));
  std::vector<PieceList> pieces(filled.places.size());
  SliceCursor cursor(from);
  uint64_t left = filled.length;
  for (const UnitRun& run : filled.runs) {
    const auto place = std::ranges::find(filled.places, place_of_run(run), &LentPlace::place);
    PieceList& here = pieces[static_cast<size_t>(place - filled.places.begin())];
    const uint64_t bytes = std::min(left, run.count * kUnitBytes);
    here.add(run.address(), cursor, bytes);
    here.add_zeros(run.address() + bytes, run.count * kUnitBytes - bytes);
    left -= bytes;
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const LentPlace& place = filled.places[i];
    const Status written = bricks_.write(static_cast<uint32_t>(place.place), place.bricks, pieces[i].pieces());
    if (written.ok()) continue;
    return i == 0 ? written : Error(EIO, "parts of it are written");
  }
  return {};
}

// Nothing was written to them, as the bricks are not those that were told of, or not open yet.
void MemberUnits::put_back(const WriteUnits& filled) {
  MutexLock lock(mutex_);
  if (keeps_ && kept_.erase(filled.tag) > 0) kept_bytes_ -= filled.length;
  is_stale_ = true;
  if (filled.lender == lender_) pool_.insert(pool_.begin(), filled.runs.begin(), filled.runs.end());
}

// The coordinator has this member's sessions ended for it: nothing else of before can be written then, either.
void MemberUnits::set_in_doubt(const WriteUnits& filled) {
  MutexLock lock(mutex_);
  if (keeps_ && kept_.erase(filled.tag) > 0) kept_bytes_ -= filled.length;
  is_stale_ = true;
  if (filled.lender == lender_) {
    in_doubt_.insert(in_doubt_.end(), filled.runs.begin(), filled.runs.end());
    in_doubt_.insert(in_doubt_.end(), pool_.begin(), pool_.end());
    pool_.clear();
  }
  changed_.notify_all();
}

void MemberUnits::keep(const WriteUnits& filled, const StagedBytes& staged) {
  MutexLock lock(mutex_);
  const auto kept = kept_.find(filled.tag);
  if (kept != kept_.end()) kept->second.bytes = staged;  // else it is another coordinator's by now
}

void MemberUnits::answered(const WriteUnits& asked, const Result<WrittenUnits>& answer, bool is_known) {
  if (answer.ok()) {
    ++writes_;
    bytes_ += asked.length;
  } else {
    ++passed_on_;
  }
  MutexLock lock(mutex_);
  if (answer.code() == EAGAIN) is_stale_ = true;
  const auto kept = kept_.find(asked.tag);
  if (kept == kept_.end()) return;
  if (is_known) kept->second.is_answered = true;  // else is_over() may have been here before
  if (answer.ok()) kept->second.number = answer->number;
  if (!is_known || kept->second.number != 0) return;
  kept_.erase(kept);
  kept_bytes_ -= asked.length;
}

void MemberUnits::is_over(const WriteUnits& asked) {
  MutexLock lock(mutex_);
  if (asked.lender != lender_) return;
  given_up_.push_back({asked.runs, asked.tag});
  changed_.notify_all();
}

// --- what the coordinator tells and wants

void MemberUnits::committed(uint64_t below) {
  MutexLock lock(mutex_);
  drop_committed(below);
}

void MemberUnits::drop_committed(uint64_t below) {
  std::erase_if(kept_, [&](const auto& one) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Kept& kept = one.second;
    const bool is_over = kept.is_answered && kept.number < below;
    if (is_over) kept_bytes_ -= kept.bytes->size();
    return is_over;
  });
}

ReturnUnits MemberUnits::give_all_back() {
  MutexLock lock(mutex_);
  ReturnUnits given;
  given.lender = lender_;
  given.runs.assign(pool_.begin(), pool_.end());
  pool_.clear();
  ask_from_ = Clock::now() + kNoneLentFor;
  return given;
}

std::shared_ptr<const std::vector<std::byte>> MemberUnits::bytes(uint64_t tag) const {
  MutexLock lock(mutex_);
  const auto kept = kept_.find(tag);
  return kept == kept_.end() ? nullptr : kept->second.bytes;
}

void MemberUnits::let_go() {
  MutexLock lock(mutex_);
  lender_ = 0;
  pool_.clear();
  in_doubt_.clear();
  given_up_.clear();
  places_.clear();
  is_stale_ = true;
  kept_.clear();
  kept_bytes_ = 0;
  ask_from_ = {};
}

// --- ahead of need

uint64_t MemberUnits::pooled() const {
  uint64_t units = 0;
  for (const UnitRun& run : pool_) units += run.count;
  return units;
}

void MemberUnits::look_after() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!look_once()) changed_.wait_for(lock, kLookEvery);
  }
}

// False: there is nothing to do.
bool MemberUnits::look_once() {
  const auto now = Clock::now();
  if (!in_doubt_.empty()) {
    (void)return_units({lender_, std::exchange(in_doubt_, {}), true, false});
    return true;
  }
  if (!given_up_.empty()) {
    return_given_up();
    return true;
  }
  const bool is_wanted = now - wanted_ < kUnusedFor;
  if (!is_wanted && !pool_.empty()) {
    ReturnUnits unused{lender_, {pool_.begin(), pool_.end()}, false, false};
    pool_.clear();
    (void)return_units(std::move(unused));
    return true;
  }
  if (now < ask_from_) return false;
  if (keeps_ && kept_bytes_ > kMostKept / 2) {
    mutex_.unlock();
    (void)coordinator_.commit();
    mutex_.lock();
    ask();
    return true;
  }
  if (!is_wanted || (!is_stale_ && pooled() > kBlocksAhead * kUnitsPerBlock / 2)) return false;
  ask();
  return true;
}

void MemberUnits::ask() {
  const uint64_t blocks = pooled() / kUnitsPerBlock;
  const GetUnits asked{static_cast<uint32_t>(kBlocksAhead - std::min(kBlocksAhead, blocks))};
  is_stale_ = false;
  ask_from_ = Clock::now() + kNoneLentFor;
  const uint64_t epoch = coordinator_.epoch();
  mutex_.unlock();
  const auto lent = coordinator_.get(asked);
  mutex_.lock();
  if (!lent.ok()) return;
  if (coordinator_.epoch() != epoch) return (void)return_units({lent->lender, lent->runs, false, false});
  forget_given_up(lent->runs);
  lender_ = lent->lender;
  places_ = lent->places;
  pool_.insert(pool_.end(), lent->runs.begin(), lent->runs.end());
  drop_committed(lent->committed);
  if (!lent->runs.empty()) ask_from_ = Clock::now() + kAskedForMore;
}

// Of an answer that does not come nothing is lost: the link has ended then.
Result<Returned> MemberUnits::return_units(ReturnUnits given) {
  mutex_.unlock();
  auto returned = coordinator_.give_back(given);
  mutex_.lock();
  return returned;
}

// If the write was done the coordinator knows that they are not lent any more, and its bytes are kept until all are
// committed that have been done till then.
void MemberUnits::return_given_up() {
  const GivenUp given_up = std::move(given_up_.back());
  given_up_.pop_back();
  const uint64_t lender = lender_;
  const auto returned = return_units({lender, given_up.runs, false, false});
  const auto kept = kept_.find(given_up.tag);
  if (!returned.ok() || lender != lender_ || kept == kept_.end() || kept->second.is_answered) return;
  kept->second.is_answered = true;
  if (returned->below > 0) kept->second.number = returned->below - 1;
  if (returned->below > 0) return;
  kept_bytes_ -= kept->second.bytes->size();
  kept_.erase(kept);
}

// Blocks that are lent anew: their former lending has ended.
void MemberUnits::forget_given_up(std::span<const UnitRun> lent_again) {
  const auto is_lent_again = [lent_again](const UnitRun& run) {
    return std::ranges::any_of(
        lent_again, [&](const UnitRun& lent) { return lent.first / kUnitsPerBlock == run.first / kUnitsPerBlock; });
  };
  for (GivenUp& one : given_up_) std::erase_if(one.runs, is_lent_again);
}

}  // namespace brickfs::shared
