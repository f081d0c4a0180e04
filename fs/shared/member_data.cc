// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/member_data.h"

#include <algorithm>
#include <utility>

#include "fs/base/ids.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;

constexpr int kMostAsked = 4;  // layouts for one read
constexpr size_t kFewReads = 4;
// Before a file that was recalled, or refused, is asked for again.
constexpr milliseconds kNotAskedFor{10};
constexpr milliseconds kNotAskedForAtMost{1'000};
// Whether a time of reading is due is said with the layout, and may change by the time that passes.
constexpr std::chrono::hours kAskedAgain{1};

uint64_t end_of(const FileLayout::Part& part) { return part.offset + part.length_bytes; }

// Bytes from the coordinator, which is another machine's process.
bool is_sound(const FileLayout& layout, uint64_t offset) {
  if (offset < layout.begin || offset >= layout.end) return false;
  uint64_t at = layout.begin;
  for (const FileLayout::Part& part : layout.parts) {
    if (part.offset < at || part.length_bytes == 0 || part.length_bytes > layout.end - part.offset) return false;
    if (part.offset >= layout.end || part.address > UINT64_MAX - part.length_bytes) return false;
    at = end_of(part);
  }
  return true;
}

const FileLayout::Place* place_of(const FileLayout& layout, uint64_t address) {
  const auto place = static_cast<uint32_t>(brickfs::place_of(group_of(address)));
  const auto found = std::ranges::find(layout.places, place, &FileLayout::Place::place);
  return found == layout.places.end() ? nullptr : &*found;
}

}  // namespace

MemberData::MemberData(MemberBricks::Open open, uint64_t preferred, Ask ask, Held& held)
    : ask_(std::move(ask)), held_(held), bricks_(std::move(open), preferred) {}

std::optional<uint64_t> MemberData::read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, bool touches,
                                         const OperationContext& context) {
  if (!held_.is_valid()) return std::nullopt;
  const Held::Asking reading(held_);
  const auto planned = plan(ino, offset, total_bytes(into), context);
  const bool is_done =
      planned && !(touches && is_to_be_touched(ino)) && read(ino, *planned, reading, offset, into, context);
  if (!is_done) {
    ++passed_on_;
    return std::nullopt;
  }
  ++reads_;
  bytes_ += planned->length;
  return planned->length;
}

// --- what is held

void MemberData::drop(File& file) {
  if (file.layouts.empty()) return;
  file.version = 0;
  file.layouts.clear();
  used_.erase(file.place);
  kept_ -= std::exchange(file.kept, 0);
}

void MemberData::let_rest(File& file) {
  file.rest = std::clamp<Clock::duration>(2 * file.rest, kNotAskedFor, kNotAskedForAtMost);
  file.rests_until = Clock::now() + file.rest;
}

void MemberData::recall(Ino ino) {
  MutexLock lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end()) return;
  File& file = found->second;
  if (!file.layouts.empty() && file.reads < kFewReads) let_rest(file);
  drop(file);
}

void MemberData::drop(Ino ino) {
  MutexLock lock(mutex_);
  const auto found = files_.find(ino);
  if (found != files_.end()) drop(found->second);
}

void MemberData::lapse() {
  MutexLock lock(mutex_);
  for (auto& [ino, file] : files_) drop(file);
}

void MemberData::forget(Ino ino) {
  MutexLock lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end()) return;
  drop(found->second);
  files_.erase(found);
}

bool MemberData::is_to_be_touched(Ino ino) {
  MutexLock lock(mutex_);
  const auto found = files_.find(ino);
  return found != files_.end() && std::exchange(found->second.is_atime_due, false);
}

// Of a recall Held knows first: who plans in between finds that he went by what has gone since.
bool MemberData::counts(Ino ino, const Plan& plan, const Held::Asking& reading) {
  {
    MutexLock lock(mutex_);
    const auto found = files_.find(ino);
    if (found == files_.end() || found->second.version != plan.version) return false;
  }
  return held_.still_holds(reading, ino, Lease::kData);
}

// --- layouts

std::optional<MemberData::Plan> MemberData::plan(Ino ino, uint64_t offset, uint64_t length,
                                                 const OperationContext& context) {
  Plan plan;
  for (int asked = 0;; ++asked) {
    uint64_t missing = offset;
    if (find(ino, offset, length, plan, missing)) return plan;
    if (asked == kMostAsked || !ask(ino, missing, context)) return std::nullopt;
  }
}

// False: nothing is known of the bytes from `missing` on.
bool MemberData::find(Ino ino, uint64_t offset, uint64_t length, Plan& plan, uint64_t& missing) {
  MutexLock lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end()) return false;
  File& file = found->second;
  plan = {};
  plan.version = file.version;
  plan.goes_on = offset > 0 && offset == file.read_to;
  uint64_t end = offset + std::min(length, UINT64_MAX - offset);
  for (missing = offset;;) {
    auto at = file.layouts.upper_bound(missing);
    if (at == file.layouts.begin() || (--at)->second->end <= missing) return false;
    end = std::min(end, at->second->size_bytes);
    plan.layouts.push_back(at->second);
    plan.size_bytes = at->second->size_bytes;
    missing = at->second->end;
    if (missing >= end) break;
  }
  if (Clock::now() - file.asked > kAskedAgain) return drop(file), false;
  plan.length = end - std::min(offset, end);
  plan.known_end = std::min(missing, plan.size_bytes);
  file.read_to = offset + plan.length;
  used_.splice(used_.begin(), used_, file.place);
  if (++file.reads > kFewReads) file.rest = {};
  return true;
}

bool MemberData::ask(Ino ino, uint64_t offset, const OperationContext& context) {
  const Held::Asking asking(held_);
  {
    MutexLock lock(mutex_);
    File& wanted = files_[ino];
    if (!std::exchange(wanted.was_read, true)) return false;
    if (!held_.still_holds(asking, ino, Lease::kData) || Clock::now() < wanted.rests_until) return false;
  }
  const auto answer = ask_(GetLayout{ino, offset}, context);
  MutexLock lock(mutex_);
  const auto found = files_.find(ino);
  if (!answer.ok() || found == files_.end()) return false;
  File& file = found->second;
  if (!answer->is_leased || !is_sound(answer->layout, offset)) return let_rest(file), false;
  if (!held_.still_holds(asking, ino, Lease::kData)) return false;  // it was recalled meanwhile
  keep(ino, file, *answer);
  return true;
}

void MemberData::keep(Ino ino, File& file, const Layout& answer) {
  if (file.layouts.empty()) {
    file.version = ++last_version_;
    file.place = used_.insert(used_.begin(), ino);
    file.asked = Clock::now();
    file.reads = 0;
    file.is_atime_due = answer.is_atime_due;
  }
  LayoutPtr& layout = file.layouts[answer.layout.begin];
  const size_t before = layout == nullptr ? 0 : layout->parts.size() + 1;
  layout = std::make_shared<const FileLayout>(answer.layout);
  const size_t added = layout->parts.size() + 1 - before;
  file.kept += added;
  kept_ += added;
  used_.splice(used_.begin(), used_, file.place);
  while (kept_ > kMostKept) drop(files_.at(used_.back()));
}

// --- reading

// False: it does not count.
bool MemberData::read(Ino ino, const Plan& plan, const Held::Asking& reading, uint64_t offset,
                      std::span<const LocalSlice> into, const OperationContext& context) {
  const bool is_short = plan.length <= kShortRead;
  if (is_short && cache_.copy(plan.version, offset, plan.length, into)) {
    ++cached_;
    return counts(ino, plan, reading);
  }
  const bool is_part_of_page = plan.length < ReadCache::kPageBytes;
  if (is_part_of_page || (is_short && plan.goes_on)) return read_more(ino, plan, reading, offset, into, context);
  if (!read(plan, offset, into, context).ok() || !counts(ino, plan, reading)) return false;
  if (is_short) cache_.keep(plan.version, offset, plan.length, offset + plan.length == plan.size_bytes, into);
  return true;
}

// Whole pages; of a file that is read through, ahead.
bool MemberData::read_more(Ino ino, const Plan& plan, const Held::Asking& reading, uint64_t offset,
                           std::span<const LocalSlice> into, const OperationContext& context) {
  constexpr uint64_t kPage = ReadCache::kPageBytes;
  const uint64_t begin = std::max(offset / kPage * kPage, plan.layouts.front()->begin);
  const uint64_t least = offset + plan.length + kPage - 1;
  const uint64_t most = plan.goes_on ? std::max(least, begin + kReadAhead) : least;
  Plan more = plan;
  more.length = std::min(most / kPage * kPage, plan.known_end) - begin;
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(more.length);
  const LocalSlice whole{buffer.get(), static_cast<uint32_t>(more.length), 0};
  if (!read(more, begin, {&whole, 1}, context).ok() || !counts(ino, plan, reading)) return false;
  cache_.keep(plan.version, begin, more.length, begin + more.length == plan.size_bytes, {&whole, 1});
  SliceCursor(into).fill({buffer.get() + (offset - begin), plan.length});
  return true;
}

Status MemberData::read(const Plan& plan, uint64_t offset, std::span<const LocalSlice> into,
                        const OperationContext& context) {
  SliceCursor cursor(into);
  const uint64_t end = offset + plan.length;
  for (const LayoutPtr& layout : plan.layouts) {
    const uint64_t here = std::min(layout->end, end);
    if (here > offset) TRY(read(*layout, offset, here, cursor, context));
    offset = std::max(offset, here);
  }
  return {};
}

Status MemberData::read(const FileLayout& layout, uint64_t begin, uint64_t end, SliceCursor& into,
                        const OperationContext& context) {
  struct OfPlace {
    const FileLayout::Place* place;
    PieceList pieces;
  };
  std::vector<OfPlace> places;
  auto part = std::ranges::upper_bound(layout.parts, begin, {}, end_of);
  for (; part != layout.parts.end() && part->offset < end; ++part) {
    const FileLayout::Place* const place = place_of(layout, part->address);
    if (place == nullptr) return Error(EPROTO, "a place that was not told");
    auto of_place = std::ranges::find(places, place, &OfPlace::place);
    if (of_place == places.end()) of_place = places.insert(of_place, {place, {}});
    const uint64_t low = std::max(part->offset, begin);
    const uint64_t high = std::min(end_of(*part), end);
    into.fill_with_zeros(low - begin);
    of_place->pieces.add(part->address + (low - part->offset), into, high - low);
    begin = high;
  }
  into.fill_with_zeros(end - begin);
  for (const OfPlace& one : places)
    TRY(bricks_.read(one.place->place, one.place->bricks, one.pieces.pieces(), context.interruption));
  return {};
}

}  // namespace brickfs::shared
