// SPDX-License-Identifier: Apache-2.0
// Shadows: of blocks that their writers left uncommitted, what is newer than their slots. They end with the process,
// unless it leaves a list of them. They and their list are durable before the header says that there is one. Who opens
// the store copies them to their slots, again from the first one if he is interrupted, and only then the header says so
// no more. That feature changes as a size does (store_resize.cc): the header's last sector first.
#include <fmt/core.h>

#include <cstring>
#include <memory>

#include "server/store/store_file.h"
#include "server/store/store_refusal.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

uint64_t checksum_of(std::span<const StoreShadow> shadows, uint64_t seed) {
  return XXH3_64bits_withSeed(shadows.data(), shadows.size_bytes(), seed);
}

}  // namespace

StoreHeader with_shadows(StoreHeader header, bool has_list) {
  header.incompat_features = (header.incompat_features & ~kStoreShadows) | (has_list ? kStoreShadows : 0);
  header.checksum = store_checksum(header, 0);
  return header;
}

Result<StoreFile::Shadow> StoreFile::write_shadow(uint32_t slot, std::span<const std::byte> block) {
  Shadow shadow{.slot = slot, .pages = {}};
  TRY(for_each_difference(slot, block, [&](uint64_t offset, uint64_t length_bytes) {
    for (uint64_t at = offset; at < offset + length_bytes; at += kShadowPageBytes)
      shadow.pages.set(at / kShadowPageBytes);
    return write_at(shadow_at(slot) + offset, block.subspan(offset, length_bytes));
  }));
  return shadow;
}

// Those that are there, each to its place in the block.
Status StoreFile::read_pages(const Shadow& shadow, std::span<std::byte> into, const OnPages& got) const {
  for (uint64_t page = 0, end = 0; page < kShadowPages; page = end + 1) {
    for (end = page; end < kShadowPages && shadow.pages.test(end);) ++end;
    if (end == page) continue;
    const uint64_t offset = page * kShadowPageBytes;
    const uint64_t length_bytes = (end - page) * kShadowPageBytes;
    TRY(read_at(shadow_at(shadow.slot) + offset, into.subspan(offset, length_bytes)));
    TRY(got(offset, length_bytes));
  }
  return {};
}

Status StoreFile::read(const Shadow& shadow, std::span<std::byte> into) const {
  TRY(read(shadow.slot, 0, into));
  return read_pages(shadow, into, [](uint64_t, uint64_t) { return Status(); });
}

// What stays there for want of the punch takes room until the store is opened again.
void StoreFile::drop_shadow(uint32_t slot) {
  if (check_works().ok()) static_cast<void>(counted(device_->punch(shadow_at(slot), kBlockBytes)));
}

Status StoreFile::leave_shadows(std::span<const Shadow> shadows) {
  std::vector<StoreShadow> records;
  for (const Shadow& shadow : shadows) {
    StoreShadow& record = records.emplace_back(StoreShadow{.slot = shadow.slot, .pages = {}});
    for (uint64_t page = 0; page < shadow.pages.size(); ++page) {
      record.pages[page / 64] |= static_cast<uint64_t>(shadow.pages.test(page)) << page % 64;
    }
  }
  const StoreShadowList list{
      .magic = kShadowsMagic, .count = records.size(), .checksum = checksum_of(records, uuid_[0])};
  TRY(write_at(list_at(), bytes_of(list)));
  TRY(write_at(list_at() + sizeof(list), std::as_bytes(std::span(records))));
  TRY(sync());
  return say_shadows_are_left(true);
}

Status StoreFile::say_shadows_are_left(bool they_are) {
  StoreHeader header{};
  TRY(read_at(0, std::as_writable_bytes(std::span(&header, 1))));
  TRY(write_header(with_shadows(header, they_are)));
  has_list_ = they_are;
  return {};
}

// EUCLEAN: damaged.
Result<std::vector<StoreFile::Shadow>> StoreFile::listed_shadows() const {
  StoreShadowList list{};
  TRY(read_at(list_at(), std::as_writable_bytes(std::span(&list, 1))));
  std::vector<StoreShadow> records(list.count <= slots_ ? list.count : 0);
  TRY(read_at(list_at() + sizeof(list), std::as_writable_bytes(std::span(records))));
  if (list.magic != kShadowsMagic || list.count != records.size() || list.checksum != checksum_of(records, uuid_[0]))
    return Error(EUCLEAN, "the list of shadows");
  std::vector<Shadow> shadows;
  for (const StoreShadow& record : records) {
    if (record.slot >= slots_) return Error(EUCLEAN, "the list of shadows");
    Shadow& shadow = shadows.emplace_back(Shadow{.slot = static_cast<uint32_t>(record.slot), .pages = {}});
    for (uint64_t page = 0; page < shadow.pages.size(); ++page) {
      shadow.pages.set(page, (record.pages[page / 64] >> page % 64 & 1) != 0);
    }
  }
  return shadows;
}

// Nothing is changed before all can be read.
Status StoreFile::settle_shadows() {
  const auto shadows = listed_shadows();
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  const std::span<std::byte> block(buffer.get(), kBlockBytes);
  Status read = shadows.ok() ? Status() : shadows.error();
  for (size_t i = 0; read.ok() && i < shadows->size(); ++i) {
    read = read_pages((*shadows)[i], block, [](uint64_t, uint64_t) { return Status(); });
  }
  if (!read.ok()) {
    log::error(
        "store {}: cannot read what clients had written and not committed when it was closed ({}): it has what was "
        "committed",
        path_, std::strerror(read.code()));
    return say_shadows_are_left(false);
  }
  for (const Shadow& shadow : *shadows) {
    TRY(read_pages(shadow, block, [&](uint64_t offset, uint64_t length_bytes) {
      return write(shadow.slot, offset, block.subspan(offset, length_bytes));
    }));
  }
  TRY(sync());
  TRY(say_shadows_are_left(false));
  log::info("store {}: has what clients had written and not committed when it was closed, in {} block(s)", path_,
            shadows->size());
  return {};
}

// Those that were left take their places; what is still there of any goes. The file keeps its length.
Status StoreFile::take_shadows(std::string* why) {
  const Status settled = has_list_ ? settle_shadows() : Status();
  if (!settled.ok()) return refuse_store(why, path_, "cannot be given what was left uncommitted", settled.code());
  const auto size = device_->size_bytes();
  const bool has_more = size.ok() && *size > list_at();
  const Status cleared = has_more ? counted(device_->punch(list_at(), *size - list_at())) : Status();
  return cleared.ok() ? cleared : refuse_store(why, path_, "cannot be cleared", cleared.code());
}

}  // namespace brickfs
