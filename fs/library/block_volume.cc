// SPDX-License-Identifier: Apache-2.0
#include "fs/library/block_volume.h"

#include <algorithm>
#include <cstring>

#include "fs/base/slices.h"
#include "fs/operations/files_on_brick.h"
#include "transport/brick/limits.h"
#include "transport/membership/client_identity.h"

namespace brickfs::library {
namespace {

// Whoever writes blocks knows of no file.
Status check_no_files(const OpenPlan& plan, Brick& brick, std::string* why) {
  if (plan.options.read_only || plan.options.over_files || !TRY(has_files(brick))) return {};
  *why = plan.name +
         ": this volume has files, which blocks written to it would destroy: take brickfs_fs_open, another volume, or "
         "option over-files";
  return Error(ENOTEMPTY, "a volume with files");
}

Status check_opened(const OpenPlan& plan, Brick& brick, const Session& session, std::string* why) {
  TRY(check_durability(plan, session.durability, why));
  return check_no_files(plan, brick, why);
}

}  // namespace

Result<std::unique_ptr<BlockVolume>> BlockVolume::open(OpenPlan plan, std::string* why) {
  if (plan.options.shared) {
    *why = "option shared is for files: blocks have one writer";
    return Error(EINVAL, "options");
  }
  std::unique_ptr<Brick> kept;
  Session session;
  const OpenOnce once = [&](SourceFailure& failure) -> Status {
    std::unique_ptr<Brick> brick = TRY(make_brick(plan.source, plan.secret, &failure.why));
    session = TRY(open_past_ended(*brick, plan.request, &failure.holder));
    kept = std::move(brick);
    return {};
  };
  TRY(open_when_free(plan, once, why));
  const Status usable = check_opened(plan, *kept, session, why);
  if (!usable.ok()) {
    static_cast<void>(kept->close());  // or the brick would hold it for us
    return usable.error();
  }
  return std::unique_ptr<BlockVolume>(new BlockVolume(std::move(plan), std::move(kept), session));
}

Status BlockVolume::close() { return brick_->close(); }

Result<bool> BlockVolume::reopen() {
  OpenRequest request = plan_.request;
  BootId boot{};
  {
    const ExclusiveLock lock(mutex_);
    mapped_.clear();
    request.resume = session_.epoch;
    boot = session_.boot;
  }
  const Session session = TRY(brick_->open(request, nullptr));
  const ExclusiveLock lock(mutex_);
  session_ = session;
  return session.boot != boot;
}

Status BlockVolume::stat(brickfs_volume_stat_t& out) {
  const BrickStat stat = TRY(brick_->stat());
  const SharedLock lock(mutex_);
  out = {};
  out.capacity_blocks = stat.volume_capacity_blocks;
  out.used_blocks = stat.volume_used_blocks;
  out.mapped_blocks = stat.volume_mapped_blocks;
  out.allocatable_blocks = stat.allocatable_blocks;
  out.memory_blocks = stat.memory_blocks;
  out.epoch = static_cast<uint64_t>(session_.epoch);
  out.boot_id = static_cast<uint64_t>(stat.boot);
  out.durable = stat.durability == Durability::kDurable ? 1 : 0;
  out.read_only = plan_.options.read_only ? 1 : 0;
  std::strncpy(out.transport, stat.transport.c_str(), sizeof(out.transport) - 1);
  return {};
}

Status BlockVolume::check_writes() const {
  return plan_.options.read_only ? Status(Error(EROFS, "opened for reading")) : Status();
}

Status BlockVolume::alloc(BlockRange blocks) {
  TRY(check_writes());
  return brick_->alloc(blocks);
}

Status BlockVolume::free(BlockRange blocks) {
  TRY(check_writes());
  TRY(brick_->free(blocks));
  forget(blocks);
  return {};
}

Status BlockVolume::map(BlockRange blocks, bool writable) {
  if (writable) TRY(check_writes());
  auto handles = brick_->map(blocks, writable ? Access::kReadWrite : Access::kRead);
  if (!handles.ok()) return handles.error().is(ENOMEM) ? Error(ENOBUFS, "all memory is mapped") : handles.error();
  const ExclusiveLock lock(mutex_);
  for (const Handle& handle : *handles) {
    for (uint64_t i = 0; i < handle.blocks.count; ++i) {
      mapped_[raw(block_after(handle.blocks.start, i))] = handle;
    }
  }
  return {};
}

Status BlockVolume::unmap(BlockRange blocks) {
  const Status status = brick_->unmap(blocks);
  if (status.ok()) forget(blocks);
  return status;
}

// An unmap revokes each handle that covers a block of the range, with all its blocks.
void BlockVolume::forget(BlockRange blocks) {
  const ExclusiveLock lock(mutex_);
  absl::erase_if(mapped_, [&](const auto& entry) {
    const BlockRange& covered = entry.second.blocks;
    return covered.start < blocks.end() && blocks.start < covered.end();
  });
}

Result<ListPage> BlockVolume::list(BlockAddress cursor) { return brick_->list(cursor); }

Status BlockVolume::commit(std::span<const CommitRange> ranges) {
  TRY(check_writes());
  return brick_->commit(ranges);
}

namespace {

// What the caller has not seen of the tag.
uint64_t news_in(const calls::Notice& now, const brickfs_notice& seen) {
  if (now.origin == seen.origin) return now.count - seen.count;
  return seen.origin == 0 ? now.count : BRICKFS_NEWS_UNKNOWN;
}

unsigned tell(std::span<const calls::Notice> told, std::span<brickfs_notice> notices) {
  unsigned with_news = 0;
  for (size_t i = 0; i < notices.size(); ++i) {
    const uint64_t news = news_in(told[i], notices[i]);
    notices[i] = {notices[i].tag, told[i].value, news, told[i].count, told[i].origin};
    if (news != 0) ++with_news;
  }
  return with_news;
}

}  // namespace

Result<unsigned> BlockVolume::wait(std::span<brickfs_notice> notices,
                                   std::optional<std::chrono::milliseconds> timeout) {
  using std::chrono::steady_clock;
  std::vector<calls::Seen> seen;
  for (const brickfs_notice& notice : notices) seen.push_back({notice.tag, notice.origin, notice.count});
  const auto begin = steady_clock::now();
  while (true) {
    auto patience = limits::kWaitMost;
    if (timeout) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(begin + *timeout - steady_clock::now());
      patience = std::clamp(left, std::chrono::milliseconds(0), limits::kWaitMost);
    }
    const auto told = brick_->wait_for_notices(seen, patience);
    if (!told.ok() && !told.error().is(ETIMEDOUT)) return told.error();
    if (told.ok()) {
      const unsigned with_news = tell(*told, notices);
      if (with_news > 0) return with_news;
    }
    if (timeout && steady_clock::now() - begin >= *timeout) return 0u;
  }
}

Status BlockVolume::find(Direction direction, uint64_t address, uint64_t bytes, Spans& spans) {
  const SharedLock lock(mutex_);
  while (bytes > 0) {
    const auto entry = mapped_.find(raw(block_of(address)));
    if (entry == mapped_.end()) return Error(ENXIO, "not mapped");
    const Handle& handle = entry->second;
    if (direction == Direction::kWrite && handle.access != Access::kReadWrite) return Error(ENXIO, "not for writing");
    const uint64_t part = std::min(bytes, raw(handle.blocks.end()) - address);
    spans.push_back({part, handle});
    address += part;
    bytes -= part;
  }
  return {};
}

Status BlockVolume::plan(Direction direction, uint64_t address, std::span<const LocalSlice> slices, Batch& batch,
                         std::vector<LocalSlice>& cut) {
  const uint64_t bytes = total_bytes(slices);
  if (bytes == 0 || bytes > limits::kTransferBytes || slices.size() > limits::kSlicesPerTransfer)
    return Error(EINVAL, "size of a transfer");
  if (bytes > UINT64_MAX - address) return Error(EINVAL, "past the last address");
  Spans spans;
  TRY(find(direction, address, bytes, spans));
  batch.transfers.resize(spans.size());
  cut.clear();
  if (spans.size() == 1) {
    const Handle& handle = spans[0].handle;
    batch.transfers[0] = {direction, handle, address - raw(handle.blocks.start), slices};
    return {};
  }
  std::vector<size_t> ends;
  SliceCursor cursor(slices);
  for (const Span& span : spans) {
    cursor.take(span.bytes, cut);
    ends.push_back(cut.size());
  }
  for (size_t i = 0, begin = 0; i < spans.size(); begin = ends[i++]) {
    const Handle& handle = spans[i].handle;
    batch.transfers[i] = {direction, handle, address - raw(handle.blocks.start),
                          std::span(cut).subspan(begin, ends[i] - begin)};
    address += spans[i].bytes;
  }
  return {};
}

}  // namespace brickfs::library
