// SPDX-License-Identifier: Apache-2.0
// Reading and writing an open store; store_open.cc opens it.
#include "server/store_file.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <cstring>

#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr uint64_t kCompareBytes = 256 * kKiB;  // read at once
constexpr uint64_t kPageBytes = 4 * kKiB;       // written at least

}  // namespace

Status StoreFile::write_volume(uint32_t id, StoreVolume record) {
  record.in_use = 1;
  record.checksum = store_checksum(record, uuid_[0] + id);
  return write_at(kStoreVolumesAt + id * sizeof(StoreVolume), bytes_of(record));
}

Status StoreFile::write_entry(const Entry& entry) {
  StoreEntry record{.address = raw(entry.address),
                    .volume = entry.volume,
                    .in_use = 1,
                    .serial = serial_.fetch_add(1, std::memory_order_relaxed) + 1,
                    .checksum = 0};
  record.checksum = store_checksum(record, uuid_[1] + entry.slot);
  return write_at(kStoreEntriesAt + entry.slot * sizeof(StoreEntry), bytes_of(record));
}

Status StoreFile::clear_entry(uint32_t slot) {
  return write_at(kStoreEntriesAt + slot * sizeof(StoreEntry), bytes_of(StoreEntry{}));
}

Status StoreFile::read(uint32_t slot, uint64_t offset, std::span<std::byte> into) const {
  return read_at(slot_at(slot) + offset, into);
}

Status StoreFile::write(uint32_t slot, uint64_t offset, std::span<const std::byte> from) {
  return write_at(slot_at(slot) + offset, from);
}

Status StoreFile::write_differences(uint32_t slot, std::span<const std::byte> block) {
  const auto stored = std::make_unique_for_overwrite<std::byte[]>(kCompareBytes);
  for (uint64_t chunk = 0; chunk < kBlockBytes; chunk += kCompareBytes) {
    TRY(read(slot, chunk, {stored.get(), kCompareBytes}));
    if (std::memcmp(stored.get(), &block[chunk], kCompareBytes) == 0) continue;
    uint64_t first = 0;  // of the pages not written yet
    uint64_t end = 0;    // of the pages that differ, from `first` on
    for (uint64_t page = 0; page < kCompareBytes; page += kPageBytes) {
      if (std::memcmp(&stored[page], &block[chunk + page], kPageBytes) != 0) {
        end = page + kPageBytes;
        continue;
      }
      if (end > first) TRY(write(slot, chunk + first, block.subspan(chunk + first, end - first)));
      first = end = page + kPageBytes;
    }
    if (end > first) TRY(write(slot, chunk + first, block.subspan(chunk + first, end - first)));
  }
  return {};
}

Status StoreFile::punch(uint32_t first_slot, uint32_t count) {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(fd_.get(), mode, static_cast<off_t>(slot_at(first_slot)), static_cast<off_t>(count * kBlockBytes)) !=
         0) {
    if (errno != EINTR) return errno_error("clearing slots of the store");
  }
  return {};
}

Status StoreFile::sync() {
  if (sync_failed_.load()) return Error(EIO, "the store failed before");
  if (fdatasync(fd_.get()) == 0) return {};
  const Error error = errno_error("syncing the store");
  sync_failed_.store(true);
  log::error(
      "store {}: cannot write to disk ({}): nothing is committed any more; repair the disk, then restart the brick",
      path_, std::strerror(error.code()));
  return Error(EIO, "syncing the store");
}

// pwritev2 rather than pwrite: thread checkers take the latter for a read that must not race with writers.
Status StoreFile::write_at(uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const iovec piece{const_cast<std::byte*>(from.data()), from.size()};
    const ssize_t written = pwritev2(fd_.get(), &piece, 1, static_cast<off_t>(offset), 0);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_error("writing the store");
    if (written == 0) return Error(EIO, "writing the store");
    from = from.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

Status StoreFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("reading the store");
    if (got == 0) return Error(EIO, "the store is shorter than it was");
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

}  // namespace brickfs
