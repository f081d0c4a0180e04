// SPDX-License-Identifier: Apache-2.0
// Units that members fill: given out, taken back, and put into files.
#include "fs/operations/unit_lending.h"

#include <numeric>

#include "fs/operations/file_change.h"
#include "fs/operations/filesystem_state.h"

namespace brickfs {
namespace {

BlockRange block_with(UnitRun run) { return {BlockAddress{run.first / kUnitsPerBlock * kBlockBytes}, 1}; }

uint64_t units_of(std::span<const UnitRun> runs) {
  return std::accumulate(runs.begin(), runs.end(), uint64_t{0},
                         [](uint64_t units, const UnitRun& run) { return units + run.count; });
}

}  // namespace

Result<uint64_t> Filesystem::write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                                         const OperationContext& context) {
  const uint64_t length = filled.length_bytes;
  if (length == 0 || filled.runs.size() > kMostFilledRuns || units_of(filled.runs) != divide_up(length, kUnitBytes))
    return Error(EINVAL, "other units than the range has");
  TRY(impl_->admit_change(context));
  Impl::FileChange change(*impl_, ino, context);
  TRY(filled.appends ? change.lock_append(length) : change.lock(filled.offset, length));
  const bool ends_in_unit = change.end() % kUnitBytes != 0 && change.end() < change.size();
  if (change.offset() % kUnitBytes != 0 || ends_in_unit) return Error(EAGAIN, "parts of units");
  const bool grows = change.end() > change.size();
  if (grows) change.zero_gap(change.offset());
  change.fill_with(filled);
  const bool stamp = !impl_->options.writeback_cache;
  TRY(change.apply({.size_bytes = grows ? std::optional(change.end()) : std::nullopt,
                    .stamp_mtime = stamp,
                    .stamp_ctime = stamp,
                    .unprivileged = unprivileged,
                    .keeps_capabilities = filled.mapped}));
  return length;
}

// The rows of a block are on the bricks before anybody is told of it: its copies may differ from then on.
std::vector<UnitRun> Filesystem::lend_units(uint64_t blocks, ClientId client, const Interruption* by) {
  if (impl_->read_only) return {};
  std::vector<UnitRun> lent;
  for (const UnitRun& run : impl_->space->lend(blocks)) {
    if (impl_->volume->begin_lending(block_with(run), client, by).ok()) {
      lent.push_back(run);
    } else {
      impl_->space->take_back(run);
    }
  }
  return lent;
}

Status Filesystem::clear_units(std::span<const UnitRun> runs, const Interruption* by) {
  if (!impl_->volume->is_replicated()) return {};
  PieceList zeros;
  for (const UnitRun& run : runs) zeros.add_zeros(run.address(), run.count * kUnitBytes);
  return impl_->volume->write(zeros.pieces(), Stage::kData, by);
}

void Filesystem::free_units(std::span<const UnitRun> runs) {
  for (const UnitRun& run : runs) impl_->space->take_back(run);
}

void Filesystem::end_lending(UnitRun block) { impl_->volume->end_lending(block_with(block)); }

Status Filesystem::expel_client(ClientId client) { return impl_->volume->expel(client); }

std::vector<LentPlace> Filesystem::writable_places() const {
  std::vector<LentPlace> places;
  for (size_t place = 0; place < impl_->volume->places(); ++place)
    places.push_back({place, impl_->volume->readable(place)});
  return places;
}

uint64_t Filesystem::lent_units() const { return impl_->space ? impl_->space->lent_units() : 0; }

void Filesystem::ask_back_by(std::function<void(const Interruption* by)> ask_back) {
  if (impl_->space) impl_->space->ask_back_by(std::move(ask_back));
}

}  // namespace brickfs
