// SPDX-License-Identifier: Apache-2.0
// Shadows: of blocks that their writers left uncommitted, what is newer than their slots. They end with the process,
// unless it leaves a list of them. They and their list are durable before the header says that there is one; it says so
// no more before anything is written that the list does not know of. That feature changes as a size does
// (store_resize.cc): the header's last sector first.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "server/store/store_file.h"
#include "server/store/store_refusal.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

uint64_t checksum_of(std::span<const uint64_t> slots, uint64_t seed) {
  return XXH3_64bits_withSeed(slots.data(), slots.size_bytes(), seed);
}

}  // namespace

StoreHeader with_shadows(StoreHeader header, bool has_list) {
  header.incompat_features = (header.incompat_features & ~kStoreShadows) | (has_list ? kStoreShadows : 0);
  header.checksum = store_checksum(header, 0);
  return header;
}

Status StoreFile::write_shadow(uint32_t slot, std::span<const std::byte> block) {
  return write_at(shadow_at(slot), block);
}

Status StoreFile::read_shadow(uint32_t slot, uint64_t offset, std::span<std::byte> into) const {
  return read_at(shadow_at(slot) + offset, into);
}

Result<bool> StoreFile::is_in_slot(uint32_t slot, std::span<const std::byte> block) const {
  const auto stored = std::make_unique_for_overwrite<std::byte[]>(kCompareBytes);
  for (uint64_t chunk = 0; chunk < kBlockBytes; chunk += kCompareBytes) {
    TRY(read(slot, chunk, {stored.get(), kCompareBytes}));
    if (std::memcmp(stored.get(), &block[chunk], kCompareBytes) != 0) return false;
  }
  return true;
}

// What stays there for want of the punch takes room until the store is opened again.
void StoreFile::drop_shadow(uint32_t slot) {
  if (check_works().ok()) static_cast<void>(counted(device_->punch(shadow_at(slot), kBlockBytes)));
}

Status StoreFile::keep_shadows(std::span<const uint64_t> slots) {
  MutexLock lock(list_mutex_);
  CHECK(!has_list_);
  const StoreShadowList list{.magic = kShadowsMagic, .count = slots.size(), .checksum = checksum_of(slots, uuid_[0])};
  TRY(write_at(list_at(), bytes_of(list)));
  TRY(write_at(list_at() + sizeof(list), std::as_bytes(slots)));
  TRY(sync());
  return say_shadows_are_kept(true);
}

Status StoreFile::forget_shadows() {
  if (!has_list_) return {};
  MutexLock lock(list_mutex_);
  return has_list_ ? say_shadows_are_kept(false) : Status();
}

Status StoreFile::say_shadows_are_kept(bool they_are) {
  StoreHeader header{};
  TRY(read_at(0, std::as_writable_bytes(std::span(&header, 1))));
  TRY(write_header(with_shadows(header, they_are)));
  has_list_ = they_are;
  return {};
}

Status StoreFile::load_shadows(std::string* why) {
  if (!has_list_) return {};
  StoreShadowList list{};
  Status read = read_at(list_at(), std::as_writable_bytes(std::span(&list, 1)));
  std::vector<uint64_t> slots(list.count <= slots_ ? list.count : 0);
  if (read.ok()) read = read_at(list_at() + sizeof(list), std::as_writable_bytes(std::span(slots)));
  if (!read.ok()) return refuse_store(why, path_, "cannot be read", read.code());
  bool sound = list.magic == kShadowsMagic && list.count == slots.size() && list.checksum == checksum_of(slots, uuid_[0]);
  for (const uint64_t slot : slots) {
    const auto entry = std::ranges::lower_bound(contents_.entries, slot, {}, &Entry::slot);
    sound = sound && entry != contents_.entries.end() && entry->slot == slot;
    if (sound) entry->has_shadow = true;
  }
  if (sound) return {};
  return refuse_store(why, EUCLEAN, fmt::format("store {}: damaged list of uncommitted blocks", path_));
}

// Those that a process left which did not end in order. The file keeps its length.
Status StoreFile::clear_shadows(uint64_t file_bytes, std::string* why) {
  uint64_t from = has_list_ ? shadow_at(0) : list_at();
  Status cleared;
  const auto clear_up_to = [&](uint64_t end) {
    if (cleared.ok() && from < end) cleared = counted(device_->punch(from, end - from));
  };
  for (const Entry& entry : contents_.entries) {
    if (!entry.has_shadow) continue;
    clear_up_to(shadow_at(entry.slot));
    from = shadow_at(entry.slot) + kBlockBytes;
  }
  clear_up_to(file_bytes);
  return cleared.ok() ? cleared : refuse_store(why, path_, "cannot be cleared", cleared.code());
}

}  // namespace brickfs
