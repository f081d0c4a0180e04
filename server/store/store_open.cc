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

Result<std::unique_ptr<StoreFile>> StoreFile::open(const std::string& path, uint64_t bytes, std::string* why,
                                                   Damage damage) {
  std::unique_ptr<StoreDevice> device = TRY(FileDevice::open(path, bytes != 0, why));
  return open(std::move(device), path, bytes, why, damage);
}

Result<std::unique_ptr<StoreFile>> StoreFile::open(std::unique_ptr<StoreDevice> device, std::string name,
                                                   uint64_t bytes, std::string* why, Damage damage) {
  std::unique_ptr<StoreFile> store(new StoreFile(std::move(name), std::move(device)));
  TRY(store->load(bytes, damage, why));
  return store;
}

// What a former brick wrote goes to the disk first, and is then read from there: where its sync failed the system's
// memory may show bytes that the disk does not have, and nobody would write them again.
Status StoreFile::load(uint64_t bytes, Damage damage, std::string* why) {
  if (!sync().ok()) return refuse_store(why, EIO, fmt::format("store {}: cannot be synced", path_));
  device_->forget_cache();
  const auto size = device_->size_bytes();
  if (!size.ok()) return refuse_store(why, path_, "cannot be examined", size.code());
  if (*size == 0 || (bytes != 0 && making_was_torn(*size))) {
    TRY(create(bytes, why));
  } else {
    TRY(load_header(*size, why));
  }
  TRY(load_table(damage, why));
  TRY(take_shadows(why));
  TRY(clear_unused_slots(why));
  if (bytes != 0 && bytes / kBlockBytes != slots_) TRY(resize(bytes / kBlockBytes, why));
  TRY(make_copy(why));
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
  return file_bytes % kStoreSectorBytes == 0 && begins_as_one && !verifies &&
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
  header.slots_at = 2 * store_slots_at(std::min(slots * kStoreGrowth, kStoreSlotsMost));  // two tables that may grow
  header.incompat_features = kStoreCopied;
  header = resized_header(header, slots);
  header.resize_to = 0;
  header.checksum = store_checksum(header, 0);
  Status written = write_at(0, bytes_of(header));
  if (written.ok()) written = sync();
  if (!written.ok()) return refuse_store(why, path_, "cannot be written", written.code());
  return load_header(kStoreHeaderBytes, why);
}

// As it stands, or as a change that was cut off would have made it, or of the second copy. `is_cut`: it is to be
// written again.
Result<StoreHeader> StoreFile::whole_header(uint64_t file_bytes, bool* is_cut, std::string* why) const {
  StoreHeader header{};
  if (file_bytes >= sizeof(header)) read_what_there_is(0, std::as_writable_bytes(std::span(&header, 1)));
  const auto verifies = [](const StoreHeader& one) {
    return one.magic == kStoreMagic && one.checksum == store_checksum(one, 0);
  };
  *is_cut = !verifies(header);
  if (!*is_cut) return header;
  for (StoreHeader finished : {resized_header(header, header.resize_to), with_shadows(header, true),
                               with_shadows(header, false), with_copy(header), with_keys(header)}) {
    if (finished.checksum == header.checksum && verifies(finished)) return finished;
  }
  if (const auto copy = find_header_copy(file_bytes)) {
    log::warn("store {}: its header was damaged: mended from the second copy", path_);
    return *copy;
  }
  if (header.magic != kStoreMagic)
    return refuse_store(why, EUCLEAN, fmt::format("store {}: not a brick's store; it is left as it is", path_));
  return refuse_store(why, EUCLEAN, fmt::format("store {}: damaged header; restore it from a backup", path_));
}

Status StoreFile::check_geometry(const StoreHeader& header, std::string* why) const {
  constexpr uint64_t kKnown = kStoreSlotsApart | kStoreShadows | kStoreCopied | kStoreKeyed;
  if (header.version != kStoreVersion || (header.incompat_features & ~kKnown) != 0 || header.ro_compat_features != 0) {
    return refuse_store(why, ENOTSUP,
                        fmt::format("store {}: made by a newer brickd (format {}); this one knows format {}", path_,
                                    header.version, kStoreVersion));
  }
  const uint64_t slots_at = slots_begin(header);
  const bool has_copy = (header.incompat_features & kStoreCopied) != 0;
  const bool has_keys = (header.incompat_features & kStoreKeyed) != 0;
  if (header.block_bytes != kBlockBytes || header.slots == 0 || header.slots > kStoreSlotsMost ||
      slots_at < store_slots_at(header.slots) || slots_at > 2 * store_slots_at(kStoreSlotsMost) ||
      slots_at % kBlockBytes != 0 || (has_copy && !copy_fits(header.slots, slots_at)) ||
      (has_keys && (!has_copy || !keys_fit(header.slots, slots_at)))) {
    return refuse_store(why, EUCLEAN, fmt::format("store {}: impossible geometry in its header", path_));
  }
  return {};
}

Status StoreFile::load_header(uint64_t file_bytes, std::string* why) {
  bool is_cut = false;
  const StoreHeader header = TRY(whole_header(file_bytes, &is_cut, why));
  TRY(check_geometry(header, why));
  slots_ = static_cast<uint32_t>(header.slots);
  slots_at_ = slots_begin(header);
  copy_at_ = (header.incompat_features & kStoreCopied) != 0 ? copy_begins(header) : 0;
  uuid_ = header.uuid;
  has_list_ = (header.incompat_features & kStoreShadows) != 0;
  has_keys_ = (header.incompat_features & kStoreKeyed) != 0;
  const uint64_t whole = slots_at_ + slots_ * kBlockBytes;
  if (file_bytes == kStoreHeaderBytes) {
    const Status grown = device_->grow(whole);
    if (!grown.ok()) return refuse_store(why, path_, "cannot be extended", grown.code());
  }
  if (file_bytes != kStoreHeaderBytes && file_bytes < whole) {
    return refuse_store(why, EUCLEAN, fmt::format("store {}: cut off at {} of {} bytes", path_, file_bytes, whole));
  }
  StoreHeader copy{};
  if (copy_at_ != 0) read_what_there_is(copy_at_, std::as_writable_bytes(std::span(&copy, 1)));
  if (!is_cut && (copy_at_ == 0 || std::ranges::equal(bytes_of(copy), bytes_of(header)))) return {};
  const Status finished = write_header(header);
  if (!finished.ok()) return refuse_store(why, path_, "cannot be written", finished.code());
  return {};
}

Status StoreFile::load_table(Damage damage, std::string* why) {
  contents_.volumes.resize(kStoreVolumes);
  std::vector<StoreEntry> table(slots_);
  std::vector<uint32_t> lost_volumes;
  std::vector<uint32_t> lost_slots;
  Status loaded = load_records(kStoreVolumesAt, "record of volume", contents_.volumes, lost_volumes);
  if (loaded.ok()) loaded = load_records(kStoreEntriesAt, "entry of the block table", table, lost_slots);
  if (loaded.ok()) loaded = adopt_entries(table);
  if (loaded.ok()) loaded = set_aside(lost_slots, damage);
  if (loaded.ok()) loaded = save_volumes(lost_volumes);
  if (loaded.ok() && has_keys_) loaded = load_keys();
  return loaded.ok() ? loaded : refuse_store(why, path_, "cannot be written", loaded.code());
}

Status StoreFile::adopt_entries(std::vector<StoreEntry>& table) {
  uint64_t serial = 0;
  for (const StoreEntry& entry : table) serial = std::max(serial, entry.serial);
  serial_.store(serial);
  TRY(drop_older_duplicates(table));
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
  std::vector<uint32_t> kept = contents_.set_aside;
  for (const Entry& entry : contents_.entries) kept.push_back(entry.slot);
  std::ranges::sort(kept);
  for (const uint32_t slot : kept) {
    clear_up_to(slot);
    free_from = slot + 1;
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
  const uint64_t table_end = kStoreEntriesAt + slots_ * sizeof(StoreEntry);
  Status reserved = device_->reserve(0, table_end);
  if (reserved.ok() && copy_at_ != 0) reserved = device_->reserve(copy_at_, table_end);
  if (reserved.ok() && has_keys_) reserved = device_->reserve(keys_at(), kStoreKeysBytes);
  if (reserved.ok() && has_keys_) reserved = device_->reserve(copy_at_ + keys_at(), kStoreKeysBytes);
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
