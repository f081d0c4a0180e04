// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/replay_log.h"

#include <algorithm>
#include <array>

#include "transport/base/check.h"
#include "transport/volume/slice_reader.h"

namespace brickfs {
namespace {

// Sorted and merged in place.
void coalesce(std::vector<CommitRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CommitRange& a, const CommitRange& b) { return a.address < b.address; });
  size_t kept = 0;
  for (const CommitRange& range : ranges) {
    if (kept > 0) {
      CommitRange& last = ranges[kept - 1];
      if (range.address <= last.address + last.length_bytes) {
        last.length_bytes = std::max(last.length_bytes, range.address + range.length_bytes - last.address);
        continue;
      }
    }
    ranges[kept++] = range;
  }
  ranges.resize(kept);
}

uint64_t bytes_to_block_end(uint64_t address) { return kBlockBytes - address % kBlockBytes; }

}  // namespace

ReplayLog::Room::~Room() {
  if (log_ != nullptr) log_->give_back(bytes_);
}

void ReplayLog::give_back(uint64_t bytes) {
  MutexLock lock(mutex_);
  reserved_ -= bytes;
  room_.notify_all();
}

std::optional<ReplayLog::Room> ReplayLog::try_reserve(uint64_t bytes, Stage stage) {
  Room room;
  if (keep_ == Keep::kNothing) return room;
  bool tell = false;
  bool granted = false;
  {
    MutexLock lock(mutex_);
    const bool half_full = used() + bytes > bound_ / 2;
    granted = stage != Stage::kData || has_room(bytes);
    if (granted) {
      reserved_ += bytes;
      room.log_ = this;
      room.bytes_ = bytes;
    }
    tell = !granted || (half_full && !told_half_full_);
    if (half_full) told_half_full_ = true;
  }
  if (tell && on_half_full_) on_half_full_();
  if (!granted) return std::nullopt;
  return room;
}

bool ReplayLog::has_room(uint64_t bytes) const {
  // One write larger than the bound must get in too: it may pass it by its own size.
  return used() + std::min(bytes, bound_ / 2) <= bound_;
}

Status ReplayLog::wait_for_room(uint64_t bytes, std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  if (has_room(bytes)) return {};
  const uint64_t failures_before = failures_;
  room_.wait_for(lock, timeout);
  if (failures_ != failures_before) return Error(last_failure_, "commit of written data");
  return {};
}

bool ReplayLog::has_room_for(uint64_t bytes) const {
  MutexLock lock(mutex_);
  return has_room(bytes);
}

void ReplayLog::wake() {
  MutexLock lock(mutex_);
  room_.notify_all();
}

void ReplayLog::copy(uint64_t address, std::span<const LocalSlice> from, Stage stage, std::vector<Record>& records,
                     const StagedWrite* staged) {
  if (keep_ == Keep::kNothing) return;
  if (keep_ == Keep::kBytes && staged != nullptr) return share(address, from, stage, records, *staged);
  uint64_t total = 0;
  for (const LocalSlice& slice : from) total += slice.length_bytes;
  SliceReader reader(from);
  while (total > 0) {
    const uint64_t most = keep_ == Keep::kBytes ? KeptBuffers::kLargeBytes : kBlockBytes;
    const auto length = static_cast<uint32_t>(std::min({total, bytes_to_block_end(address), most}));
    Record record{address, length, stage, nullptr, nullptr};
    if (keep_ == Keep::kBytes) {
      record.bytes = buffers_->take(length).bytes;
      reader.copy_to(record.bytes.get(), length);
    }
    records.push_back(std::move(record));
    address += length;
    total -= length;
  }
}

void ReplayLog::share(uint64_t address, std::span<const LocalSlice> from, Stage stage, std::vector<Record>& records,
                      const StagedWrite& staged) {
  for (const LocalSlice& slice : from) {
    for (uint32_t done = 0; done < slice.length_bytes;) {
      const auto length =
          static_cast<uint32_t>(std::min<uint64_t>(slice.length_bytes - done, bytes_to_block_end(address)));
      records.push_back({address, length, stage, staged.share(slice.data + done), nullptr});
      address += length;
      done += length;
    }
  }
}

void ReplayLog::name(const LentRange& range, const std::shared_ptr<LentBytes>& bytes,
                     std::vector<Record>& records) const {
  if (keep_ == Keep::kNothing) return;
  const uint64_t end = range.address + range.length_bytes;
  for (uint64_t address = range.address; address < end;) {
    const uint64_t most = keep_ == Keep::kBytes ? KeptBuffers::kLargeBytes : kBlockBytes;
    const auto length = static_cast<uint32_t>(std::min({end - address, bytes_to_block_end(address), most}));
    records.push_back({address, length, Stage::kData, nullptr, keep_ == Keep::kBytes ? bytes : nullptr});
    address += length;
  }
}

uint64_t ReplayLog::append(std::vector<Record> records, Room& room) {
  if (records.empty()) return 0;
  uint64_t length = 0;
  uint64_t cost = 0;
  for (const Record& record : records) {
    length += record.length_bytes;
    cost += cost_of(record);
  }
  MutexLock lock(mutex_);
  CHECK(room.bytes_ >= length);
  room.bytes_ -= length;
  reserved_ -= length;
  Generation& generation = room.joins_committing_ ? committing_ : current_;
  generation.cost += cost;
  std::move(records.begin(), records.end(), std::back_inserter(generation.records));
  return room.joins_committing_ ? current_number_ - 1 : current_number_;
}

void ReplayLog::turn_over() {
  MutexLock lock(mutex_);
  committing_.cost += current_.cost;
  if (committing_.records.empty()) {
    committing_.records.swap(current_.records);
  } else {
    std::move(current_.records.begin(), current_.records.end(), std::back_inserter(committing_.records));
  }
  current_.records.clear();
  current_.cost = 0;
  ++current_number_;
  told_half_full_ = false;
}

std::vector<CommitRange> ReplayLog::committing_ranges() const {
  MutexLock lock(mutex_);
  std::vector<const Record*> records;
  records.reserve(committing_.records.size());
  for (const Record& record : committing_.records) records.push_back(&record);
  return ranges_of(records);
}

std::vector<CommitRange> ReplayLog::ranges_of(std::span<const Record* const> records) {
  std::array<std::vector<CommitRange>, kStages> stages;
  for (const Record* record : records) {
    stages[static_cast<size_t>(record->stage)].push_back({record->address, record->length_bytes, false});
  }
  std::vector<CommitRange> all;
  for (auto& stage : stages) {
    coalesce(stage);
    if (!stage.empty() && !all.empty()) stage.front().after_previous = true;
    all.insert(all.end(), stage.begin(), stage.end());
  }
  return all;
}

uint64_t ReplayLog::current_generation() const {
  MutexLock lock(mutex_);
  return current_number_;
}

void ReplayLog::committed() {
  std::vector<Record> done;  // goes without the lock
  {
    MutexLock lock(mutex_);
    done.swap(committing_.records);
    committing_.cost = 0;
    // Whoever sees this has all that went before: current was turned over when this commit began.
    committed_generation_.store(current_number_ - 1, std::memory_order_release);
    room_.notify_all();
  }
}

void ReplayLog::commit_failed(Error error) {
  MutexLock lock(mutex_);
  ++failures_;
  last_failure_ = error.code();
  room_.notify_all();
}

void ReplayLog::forget(BlockRange blocks) {
  std::vector<Record> gone;  // likewise
  {
    MutexLock lock(mutex_);
    for (Generation* generation : {&current_, &committing_}) {
      auto& records = generation->records;
      const auto stays = [&](const Record& record) {
        return record.address < raw(blocks.start) || record.address >= raw(blocks.end());
      };
      const auto kept_end = std::stable_partition(records.begin(), records.end(), stays);
      for (auto record = kept_end; record != records.end(); ++record) {
        generation->cost -= cost_of(*record);
        gone.push_back(std::move(*record));
      }
      records.erase(kept_end, records.end());
    }
    room_.notify_all();
  }
}

std::vector<const ReplayLog::Record*> ReplayLog::records() const {
  MutexLock lock(mutex_);
  std::vector<const Record*> records;
  records.reserve(committing_.records.size() + current_.records.size());
  for (const Generation* generation : {&committing_, &current_}) {
    for (const Record& record : generation->records) records.push_back(&record);
  }
  return records;
}

BlockSet ReplayLog::blocks() const {
  BlockSet blocks;
  MutexLock lock(mutex_);
  for (const Generation* generation : {&committing_, &current_}) {
    for (const Record& record : generation->records) blocks.insert(BlockRange{block_of(record.address), 1});
  }
  return blocks;
}

uint64_t ReplayLog::used_bytes() const {
  MutexLock lock(mutex_);
  return used();
}

}  // namespace brickfs
