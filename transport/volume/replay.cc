// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/replay.h"

#include <algorithm>

#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr size_t kRecordsPerBatch = 128;
constexpr uint64_t kBytesPerBatch = 8 * kMiB;

Status for_each_call(const BlockSet& blocks, const std::function<Status(BlockRange)>& call) {
  Status status;
  blocks.for_each(limits::kBlocksPerCall, [&](BlockRange range) {
    status = call(range);
    return status.ok();
  });
  return status;
}

}  // namespace

Status Replay::run() {
  TRY(repair_blocks());
  std::vector<const ReplayLog::Record*> records = log_.records();
  // If this client dies on the way, what refers must not be there without what it refers to.
  std::ranges::stable_sort(records, {}, &ReplayLog::Record::stage);
  TRY(rewrite(records));
  for (const auto& [owner, bytes] : lost_bytes_)
    log::error(
        "brick restarted: {} bytes that {} wrote since the last commit are lost, which it has not given again; "
        "zeros in their place",
        bytes, owner);
  log::info("brick restarted: {} writes that were not committed were written again", records.size());
  return {};
}

Status Replay::repair_blocks() {
  const std::vector<BlockRange> listed = TRY(list_blocks(brick_));
  const BlockLedger::Repair repair = ledger_.plan_repair(listed);
  if (!repair.lost.empty()) return Error(ENODATA, "the brick restarted without blocks that had been committed");
  TRY(for_each_call(repair.free, [this](BlockRange range) { return brick_.free(range); }));
  TRY(for_each_call(repair.allocate, [this](BlockRange range) { return brick_.alloc(range); }));
  for (const BlockRange& gone : ledger_.repaired()) log_.forget(gone);
  return {};
}

Status Replay::rewrite(Records records) {
  for (size_t i = 0; i < records.size(); ++i) {
    const ReplayLog::Record& record = *records[i];
    // Transfers of a batch land in any order, so what overlaps goes with the next one, and so does the next stage.
    const bool next_stage = !posted_.empty() && posted_.back()->stage != record.stage;
    if (next_stage || posted_.size() == kRecordsPerBatch || posted_bytes_ >= kBytesPerBatch || overlaps(record)) {
      TRY(flush());
    }
    TRY(add(record, records.first(i)));
  }
  return flush();
}

bool Replay::overlaps(const ReplayLog::Record& record) const {
  return std::any_of(posted_.begin(), posted_.end(), [&](const ReplayLog::Record* other) {
    return record.address < other->address + other->length_bytes &&
           other->address < record.address + record.length_bytes;
  });
}

Status Replay::add(const ReplayLog::Record& record, Records before) {
  const BlockAddress block = block_of(record.address);
  HandleCache::Lease lease = handles_.find(block, Access::kReadWrite);
  if (!lease) lease = TRY(map(block, before));
  lease.written(log_.current_generation());
  leases_.push_back(std::move(lease));
  bytes_.push_back(bytes_of(record));
  posted_.push_back(&record);
  posted_bytes_ += record.length_bytes;
  return {};
}

std::shared_ptr<std::byte> Replay::bytes_of(const ReplayLog::Record& record) {
  if (record.lent == nullptr) return record.bytes;
  const std::shared_ptr<std::byte> bytes(new std::byte[record.length_bytes](), std::default_delete<std::byte[]>());
  const std::span<std::byte> into(bytes.get(), record.length_bytes);
  if (record.lent->fetch(record.address, into).ok()) return bytes;
  std::ranges::fill(into, std::byte{0});
  lost_bytes_[record.lent->owner()] += record.length_bytes;
  return bytes;
}

Result<HandleCache::Lease> Replay::map(BlockAddress block, Records before) {
  auto handles = brick_.map({block, 1}, Access::kReadWrite);
  if (!handles.ok() && handles.error().is(ENOMEM)) {
    TRY(flush());
    TRY(empty_memory(before));
    handles = brick_.map({block, 1}, Access::kReadWrite);
  }
  if (!handles.ok()) return handles.error();
  return handles_.insert(handles_.claim_missing(block, 1, Access::kReadWrite), *handles, Access::kReadWrite, block);
}

// What has been written again so far is what a commit() at that time would have covered, so it may become durable now;
// and must, in the order of stages, before it is unmapped.
Status Replay::empty_memory(Records before) {
  if (before_commit_) TRY(before_commit_());
  TRY(commit_ranges(brick_, ReplayLog::ranges_of(before)));
  const HandleCache::Claim all = handles_.take_cold(UINT64_MAX, UINT64_MAX, false);
  return for_each_call(all.blocks(), [this](BlockRange range) { return brick_.unmap(range); });
}

Status Replay::flush() {
  Batch batch;
  std::vector<LocalSlice> slices(posted_.size());
  for (size_t i = 0; i < posted_.size(); ++i) {
    const ReplayLog::Record& record = *posted_[i];
    const Handle& handle = leases_[i].handle();
    slices[i] = {bytes_[i].get(), record.length_bytes, 0};
    batch.transfers.push_back({Direction::kWrite, handle, record.address - raw(handle.blocks.start),
                               std::span<const LocalSlice>(&slices[i], 1)});
  }
  Status status;
  if (!batch.transfers.empty()) {
    brick_.submit(batch);
    status = brick_.wait(batch);
  }
  posted_.clear();
  leases_.clear();
  bytes_.clear();
  posted_bytes_ = 0;
  return status;
}

}  // namespace brickfs
