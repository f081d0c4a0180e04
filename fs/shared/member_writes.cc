// SPDX-License-Identifier: Apache-2.0
// Writes of a member: large ones to the bricks, into units that the coordinator has lent, and all others through him.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "fs/base/slices.h"
#include "fs/shared/member_files.h"

namespace brickfs::shared {
namespace {

// By the coordinator: it has been done, or will not be.
bool is_known_to_be_over(int code) { return code != EINTR && code != EIO && code != ESTALE && code != ECANCELED; }

template <typename T>
Status outcome_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

std::vector<LocalSlice> next_part(SliceCursor& cursor, uint64_t bytes) {
  std::vector<LocalSlice> part;
  if (bytes > 0) cursor.take(bytes, part);
  return part;
}

}  // namespace

std::unique_ptr<MemberUnits> MemberFiles::make_units() {
  if (data_ == nullptr || read_only_) return nullptr;
  CoordinatorLink& link = *link_;
  return std::make_unique<MemberUnits>(
      data_->bricks(), link.durability() == Durability::kDurable,
      MemberUnits::Coordinator{.get = [&link](const GetUnits& asked) { return link.ask_for_nobody(asked); },
                               .give_back = [&link](const ReturnUnits& given) { return link.ask_for_nobody(given); },
                               .commit = [&link] { return outcome_of(link.ask(Sync{}, {})); },
                               .epoch = [&link] { return link.epoch(); }});
}

// All or an error: of a longer write that fails, what is there is undefined.
Result<uint64_t> MemberFiles::write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                                    const Caller* unprivileged, bool mapped, const OperationContext& context) {
  TRY(check_writable());
  SliceCursor cursor(from);
  const uint64_t wanted = total_bytes(from);
  const auto who = unprivileged == nullptr ? std::nullopt : std::optional(shared::to_who(*unprivileged));
  uint64_t done = 0;
  do {
    const uint64_t here = std::min<uint64_t>(wanted - done, kMostData);
    const Write part{ino, offset + done, append, false, mapped, who};
    const std::vector<LocalSlice> bytes = next_part(cursor, here);
    const auto written = may_fill_units(part, here) ? write_units(part, bytes, context) : std::nullopt;
    TRY(written ? *written : outcome_of(write_some(part, bytes, context)));
    done += here;
  } while (done < wanted);
  return done;
}

// Whole units, as far as it is known where the file ends. Else the coordinator would refuse them.
bool MemberFiles::may_fill_units(const Write& asked, uint64_t length) const {
  if (units_ == nullptr || length < MemberUnits::kLeastBytes) return false;
  const auto attributes = held_.attributes(asked.ino);
  if (asked.appends) return attributes && attributes->size_bytes % kUnitBytes == 0;
  const uint64_t end = asked.offset + length;
  return asked.offset % kUnitBytes == 0 && (end % kUnitBytes == 0 || (attributes && end >= attributes->size_bytes));
}

// None: the coordinator is to write it.
std::optional<Status> MemberFiles::write_units(const Write& asked, std::span<const LocalSlice> from,
                                               const OperationContext& context) {
  auto filled = units_->fill(from);
  if (!filled) return std::nullopt;
  filled->ino = asked.ino;
  filled->offset = asked.offset;
  filled->appends = asked.appends;
  filled->mapped = asked.mapped;
  filled->unprivileged = asked.unprivileged;
  Held::Change change(held_);
  change_data(change, asked.ino);
  const Held::Asking asking(held_);
  const auto answer =
      link_->ask(*filled, context, {&change, [units = units_.get(), asked = *filled] { units->is_over(asked); }});
  units_->answered(*filled, answer, is_known_to_be_over(answer.code()));
  if (answer.code() == EAGAIN) return std::nullopt;
  if (answer.ok() && answer->written.inode) change.now_is(asking, *answer->written.inode);
  return outcome_of(answer);
}

// In one call, or it is left to write().
Result<uint64_t> MemberFiles::overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                                        const OperationContext& context) {
  TRY(check_writable());
  if (total_bytes(from) > kMostData) return Error(ERANGE, "too much for one call");
  return write_some({ino, offset, false, true, false, {}}, from, context);
}

Result<uint64_t> MemberFiles::write_some(const Write& asked, std::span<const LocalSlice> from,
                                         const OperationContext& context) {
  Held::Change change(held_);
  change_data(change, asked.ino);
  const Held::Asking asking(held_);
  const Written written = TRY(link_->write(asked, from, context, &change));
  if (written.inode) change.now_is(asking, *written.inode);
  return written.count;
}

}  // namespace brickfs::shared
