// SPDX-License-Identifier: Apache-2.0
// Reading and writing an open store; store_open.cc opens it.
#include "server/store/store_file.h"

#include <cstring>

#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr uint64_t kCompareBytes = 256 * kKiB;  // read at once

}  // namespace

Status StoreFile::write_volume(uint32_t id, StoreVolume record) {
  record.in_use = record.in_use == kVolumeGoing ? kVolumeGoing : kVolumeInUse;
  record.checksum = store_checksum(record, uuid_[0] + id);
  return write_both(kStoreVolumesAt + id * sizeof(StoreVolume), bytes_of(record));
}

Status StoreFile::erase_volume(uint32_t id) {
  return write_both(kStoreVolumesAt + id * sizeof(StoreVolume), bytes_of(StoreVolume{}));
}

Status StoreFile::write_entry(const Entry& entry) {
  StoreEntry record{.address = raw(entry.address),
                    .volume = entry.volume,
                    .in_use = 1,
                    .serial = serial_.fetch_add(1, std::memory_order_relaxed) + 1,
                    .checksum = 0};
  if (record.serial > kStoreNumbers) return Error(ENOSPC, "the store has no more numbers for entries");
  record.checksum = store_checksum(record, uuid_[1] + entry.slot);
  const Status written = write_both(kStoreEntriesAt + entry.slot * sizeof(StoreEntry), bytes_of(record));
  sync_.table_written();
  return written;
}

Status StoreFile::clear_entry(uint32_t slot) {
  const Status written = write_both(kStoreEntriesAt + slot * sizeof(StoreEntry), bytes_of(StoreEntry{}));
  sync_.table_written();
  return written;
}

Status StoreFile::read(uint32_t slot, uint64_t offset, std::span<std::byte> into) const {
  return read_at(slot_at(slot) + offset, into);
}

Status StoreFile::write(uint32_t slot, uint64_t offset, std::span<const std::byte> from) {
  return write_at(slot_at(slot) + offset, from);
}

// In runs of pages.
Status StoreFile::for_each_difference(uint32_t slot, std::span<const std::byte> block, const OnPages& found) const {
  const auto stored = std::make_unique_for_overwrite<std::byte[]>(kCompareBytes);
  for (uint64_t chunk = 0; chunk < kBlockBytes; chunk += kCompareBytes) {
    TRY(read(slot, chunk, {stored.get(), kCompareBytes}));
    if (std::memcmp(stored.get(), &block[chunk], kCompareBytes) == 0) continue;
    uint64_t first = 0;  // of the pages not told yet
    uint64_t end = 0;    // of the pages that differ, from `first` on
    for (uint64_t page = 0; page < kCompareBytes; page += kShadowPageBytes) {
      if (std::memcmp(&stored[page], &block[chunk + page], kShadowPageBytes) != 0) {
        end = page + kShadowPageBytes;
        continue;
      }
      if (end > first) TRY(found(chunk + first, end - first));
      first = end = page + kShadowPageBytes;
    }
    if (end > first) TRY(found(chunk + first, end - first));
  }
  return {};
}

Status StoreFile::write_differences(uint32_t slot, std::span<const std::byte> block) {
  return for_each_difference(slot, block, [&](uint64_t offset, uint64_t length_bytes) {
    return write(slot, offset, block.subspan(offset, length_bytes));
  });
}

Status StoreFile::reserve(uint32_t first_slot, uint32_t count) {
  TRY(check_works());
  return counted(device_->reserve(slot_at(first_slot), count * kBlockBytes));
}

Status StoreFile::punch(uint32_t first_slot, uint32_t count) {
  TRY(check_works());
  return counted(device_->punch(slot_at(first_slot), count * kBlockBytes));
}

Status StoreFile::sync() {
  const Status synced = sync_.sync();
  if (synced.ok()) return {};
  errors_.fetch_add(1, std::memory_order_relaxed);
  if (!failure_logged_.exchange(true)) {
    log::error(
        "store {}: cannot write to disk ({}): nothing is committed any more; repair the disk, then restart the brick",
        path_, std::strerror(synced.code()));
  }
  return Error(EIO, "syncing the store");
}

Status StoreFile::counted(Status done) const {
  if (!done.ok()) errors_.fetch_add(1, std::memory_order_relaxed);
  return done;
}

Status StoreFile::check_works() const { return failed() ? Error(EIO, "the store failed before") : Status(); }

Status StoreFile::write_at(uint64_t offset, std::span<const std::byte> from) {
  TRY(check_works());
  return counted(device_->write(offset, from));
}

Status StoreFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  TRY(check_works());
  return counted(device_->read(offset, into));
}

}  // namespace brickfs
