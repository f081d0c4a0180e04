// SPDX-License-Identifier: Apache-2.0
// Making, opening and validating a store.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "server/store/file_device.h"
#include "server/store/store_file.h"
#include "server/store/store_refusal.h"
#include "transport/base/log.h"
#include "transport/base/random.h"
#include "transport/base/size.h"
#include "transport/brick/brick.h"
#include "transport/brick/volume_name.h"

namespace brickfs {
namespace {

constexpr uint64_t kSectorBytes = 512;  // which a disk writes whole or not at all

template <typename Record>
bool all_zeros(const Record& record) {
  return std::ranges::all_of(bytes_of(record), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

bool is_sound(const StoreVolume& record) {
  return (record.in_use == kVolumeInUse || record.in_use == kVolumeGoing) && record.name.back() == 0 &&
         is_volume_name(record.name.data()) && record.holder_name.back() == 0 && record.epoch <= kStoreNumbers &&
         record.lease_mode <= static_cast<uint32_t>(OpenMode::kReadOnly);
}

Result<std::unique_ptr<StoreFile>> StoreFile::open(const std::string& path, uint64_t bytes, std::string* why) {
  std::unique_ptr<StoreDevice> device = TRY(FileDevice::open(path, bytes != 0, why));
  return open(std::move(device), path, bytes, why);
}

Result<std::unique_ptr<StoreFile>> StoreFile::open(std::unique_ptr<StoreDevice> device, std::string name,
                                                   uint64_t bytes, std::string* why) {
  std::unique_ptr<StoreFile> store(new StoreFile(std::move(name), std::move(device)));
  TRY(store->load(bytes, why));
  return store;
}

// What a former brick wrote goes to the disk first, and is then read from there: where its sync failed the system's
// memory may show bytes that the disk does not have, and nobody would write them again.
Status StoreFile::load(uint64_t bytes, std::string* why) {
  if (!sync().ok()) return refuse_store(why, EIO, fmt::format("store {}: cannot be synced", path_));
  device_->forget_cache();
  const auto size = device_->size_bytes();
  if (!size.ok()) return refuse_store(why, path_, "cannot be examined", size.code());
  if (*size == 0 || (bytes != 0 && making_was_torn(*size))) {
    TRY(create(bytes, why));
  } else {
    TRY(load_header(*size, why));
  }
  TRY(load_volumes(why));
  TRY(load_entries(why));
  TRY(take_shadows(why));
  TRY(clear_unused_slots(why));
  if (bytes != 0 && bytes / kBlockBytes != slots_) TRY(resize(bytes / kBlockBytes, why));
  reserve_what_is_used();
  return {};
}

// The machine stopped before a new store's header was whole: what is there of it, sector by sector, is from create(),
// or zeros.
bool StoreFile::making_was_torn(uint64_t file_bytes) const {
  StoreHeader header{};
  if (file_bytes > sizeof(header) || !read_at(0, std::as_writable_bytes(std::span(&header, 1)).first(file_bytes)).ok())
    return false;
  const auto bytes = bytes_of(header);
  const bool begins_as_one = header.magic == kStoreMagic || all_zeros(header.magic);
  const auto between = bytes.subspan(offsetof(StoreHeader, reserved), sizeof(header.reserved));
  const bool verifies = header.checksum == store_checksum(header, 0);
  return file_bytes % kSectorBytes == 0 && begins_as_one && !verifies &&
         std::ranges::all_of(between, [](std::byte byte) { return byte == std::byte{0}; });
}

// First the header alone, durably: a file of just that length is a store whose making was interrupted, and is finished
// by load_header().
Status StoreFile::create(uint64_t bytes, std::string* why) {
  if (bytes == 0) return refuse_store(why, EINVAL, fmt::format("store {}: empty; give a size to make it", path_));
  const uint64_t slots = bytes / kBlockBytes;
  if (slots == 0 || slots > kStoreSlotsMost) {
    return refuse_store(why, EINVAL,
                        fmt::format("store {}: a size of {} is not from {} to {}", path_, format_size(bytes),
                                    format_size(kBlockBytes), format_size(kStoreSlotsMost * kBlockBytes)));
  }
  StoreHeader header{};
  header.magic = kStoreMagic;
  header.version = kStoreVersion;
  header.block_bytes = kBlockBytes;
  header.uuid = {random_id<uint64_t>(), random_id<uint64_t>()};
  header.slots = std::min(slots * kStoreGrowth, kStoreSlotsMost);  // for the room of the table
  header = resized_header(header, slots);
  header.resize_to = 0;
  header.checksum = store_checksum(header, 0);
  Status written = write_at(0, bytes_of(header));
  if (written.ok()) written = sync();
  if (!written.ok()) return refuse_store(why, path_, "cannot be written", written.code());
  return load_header(kStoreHeaderBytes, why);
}

Status StoreFile::load_header(uint64_t file_bytes, std::string* why) {
  StoreHeader header{};
  if (file_bytes < sizeof(header) || !read_at(0, std::as_writable_bytes(std::span(&header, 1))).ok() ||
      header.magic != kStoreMagic) {
    return refuse_store(why, EUCLEAN, fmt::format("store {}: not a brick's store; it is left as it is", path_));
  }
  const uint64_t checksum = header.checksum;
  const bool is_cut = header.checksum != store_checksum(header, 0);  // or damaged
  for (const StoreHeader& finished :
       {resized_header(header, header.resize_to), with_shadows(header, true), with_shadows(header, false)}) {
    if (is_cut && finished.checksum == checksum) header = finished;
  }
  if (header.checksum != store_checksum(header, 0)) {
    return refuse_store(why, EUCLEAN, fmt::format("store {}: damaged header; restore it from a backup", path_));
  }
  constexpr uint64_t kKnown = kStoreSlotsApart | kStoreShadows;
  if (header.version != kStoreVersion || (header.incompat_features & ~kKnown) != 0 || header.ro_compat_features != 0) {
    return refuse_store(why, ENOTSUP,
                        fmt::format("store {}: made by a newer brickd (format {}); this one knows format {}", path_,
                                    header.version, kStoreVersion));
  }
  if (header.block_bytes != kBlockBytes || header.slots == 0 || header.slots > kStoreSlotsMost ||
      slots_begin(header) < store_slots_at(header.slots) || slots_begin(header) > store_slots_at(kStoreSlotsMost) ||
      slots_begin(header) % kBlockBytes != 0) {
    return refuse_store(why, EUCLEAN, fmt::format("store {}: impossible geometry in its header", path_));
  }
  slots_ = static_cast<uint32_t>(header.slots);
  slots_at_ = slots_begin(header);
  uuid_ = header.uuid;
  has_list_ = (header.incompat_features & kStoreShadows) != 0;
  const uint64_t whole = slots_at_ + slots_ * kBlockBytes;
  if (file_bytes == kStoreHeaderBytes) {
    const Status grown = device_->grow(whole);
    if (!grown.ok()) return refuse_store(why, path_, "cannot be extended", grown.code());
  }
  if (file_bytes != kStoreHeaderBytes && file_bytes < whole) {
    return refuse_store(why, EUCLEAN, fmt::format("store {}: cut off at {} of {} bytes", path_, file_bytes, whole));
  }
  if (!is_cut) return {};
  const Status finished = write_header(header);
  if (!finished.ok()) return refuse_store(why, path_, "cannot be written", finished.code());
  return {};
}

Status StoreFile::load_volumes(std::string* why) {
  contents_.volumes.resize(kStoreVolumes);
  const Status read = read_at(kStoreVolumesAt, std::as_writable_bytes(std::span(contents_.volumes)));
  if (!read.ok()) return refuse_store(why, path_, "cannot be read", read.code());
  for (uint32_t id = 0; id < kStoreVolumes; ++id) {
    const StoreVolume& record = contents_.volumes[id];
    if (all_zeros(record)) continue;
    if (!is_sound(record) || record.checksum != store_checksum(record, uuid_[0] + id)) {
      return refuse_store(why, EUCLEAN, fmt::format("store {}: damaged record of volume {}", path_, id));
    }
  }
  return {};
}

Status StoreFile::load_entries(std::string* why) {
  std::vector<StoreEntry> table(slots_);
  const Status read = read_at(kStoreEntriesAt, std::as_writable_bytes(std::span(table)));
  if (!read.ok()) return refuse_store(why, path_, "cannot be read", read.code());
  uint64_t serial = 0;
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    const StoreEntry& entry = table[slot];
    if (all_zeros(entry)) continue;
    if (entry.in_use != 1 || entry.checksum != store_checksum(entry, uuid_[1] + slot) ||
        !is_valid({BlockAddress{entry.address}, 1}) || entry.serial > kStoreNumbers || entry.volume >= kStoreVolumes ||
        contents_.volumes[entry.volume].in_use == 0) {
      return refuse_store(why, EUCLEAN, fmt::format("store {}: damaged block table, entry {}", path_, slot));
    }
    serial = std::max(serial, entry.serial);
  }
  serial_.store(serial);
  const Status dropped = drop_older_duplicates(table);
  if (!dropped.ok()) return refuse_store(why, path_, "cannot be written", dropped.code());
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (table[slot].in_use == 0) continue;
    contents_.entries.push_back({table[slot].volume, BlockAddress{table[slot].address}, slot});
  }
  return {};
}

// A block freed and allocated again within one sync has two entries if the machine went down before the freeing of
// the first reached the disk.
Status StoreFile::drop_older_duplicates(std::vector<StoreEntry>& table) {
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> slot_of;
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (table[slot].in_use == 0) continue;
    const auto [known, fresh] = slot_of.try_emplace({table[slot].volume, table[slot].address}, slot);
    if (fresh) continue;
    const uint32_t older = table[slot].serial > table[known->second].serial ? known->second : slot;
    if (older == known->second) known->second = slot;
    table[older] = {};
    TRY(clear_entry(older));
  }
  return {};
}

// A slot that is not in use may hold bytes of its last block if the brick stopped before they were cleared.
Status StoreFile::clear_unused_slots(std::string* why) {
  Status cleared;
  uint32_t free_from = 0;
  const auto clear_up_to = [&](uint32_t end) {
    if (cleared.ok() && free_from < end) cleared = punch(free_from, end - free_from);
  };
  for (const Entry& entry : contents_.entries) {
    clear_up_to(entry.slot);
    free_from = entry.slot + 1;
  }
  clear_up_to(slots_);
  if (cleared.ok() && sync().ok()) return {};
  if (cleared.ok()) return refuse_store(why, EIO, fmt::format("store {}: cannot be synced", path_));
  if (cleared.error().is(EOPNOTSUPP)) {
    return refuse_store(
        why, ENOTSUP,
        fmt::format("store {}: its file system cannot punch holes; put it on ext4, xfs, btrfs or tmpfs", path_));
  }
  return refuse_store(why, path_, "cannot be cleared", cleared.code());
}

// New blocks have their room reserved when they are allocated; in a store of an older brick they may not have it.
void StoreFile::reserve_what_is_used() {
  Status reserved = device_->reserve(0, kStoreEntriesAt + slots_ * sizeof(StoreEntry));
  for (size_t i = 0; i < contents_.entries.size() && reserved.ok();) {
    const uint32_t first = contents_.entries[i].slot;
    uint32_t count = 0;
    while (i < contents_.entries.size() && contents_.entries[i].slot == first + count) ++i, ++count;
    reserved = reserve(first, count);
  }
  if (reserved.ok()) return;
  log::warn("store {}: its disk has no room for all of it ({}): commits may fail until there is more", path_,
            std::strerror(reserved.code()));
}

}  // namespace brickfs
