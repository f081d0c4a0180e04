// SPDX-License-Identifier: Apache-2.0
// Growing and shrinking a store. The header's first sector says how many slots there are, its last one to which number
// they are being changed, with the checksum that will then be right: each is written whole or not at all, one durably
// before the other. So a store whose header does not verify as it stands, but does with that number, is one whose
// change was cut off there: all that the change needs was durable before.
#include <fmt/core.h>

#include <algorithm>

#include "server/store/store_file.h"
#include "server/store/store_refusal.h"
#include "transport/base/log.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

constexpr uint64_t kHeaderSectorBytes = 512;

}  // namespace

// The header with that many slots, which lie where they lay.
StoreHeader resized_header(StoreHeader header, uint64_t slots) {
  const uint64_t slots_at = slots_begin(header);
  header.slots = header.resize_to = slots;
  header.slots_at = store_slots_at(slots) == slots_at ? 0 : slots_at;
  header.incompat_features = (header.incompat_features & (kStoreShadows | kStoreCopied | kStoreKeyed)) |
                             (header.slots_at == 0 ? 0 : kStoreSlotsApart);
  header.checksum = store_checksum(header, 0);
  return header;
}

Status StoreFile::write_header(const StoreHeader& header) {
  TRY(write_at(kHeaderSectorBytes, bytes_of(header).subspan(kHeaderSectorBytes)));  // between the two are zeros
  TRY(sync());
  TRY(write_at(0, bytes_of(header).first(kHeaderSectorBytes)));
  TRY(sync());
  if (copy_at_ == 0) return {};
  TRY(write_at(copy_at_, bytes_of(header)));
  return sync();
}

// Its slots are zeros, and so is their part of the table, before the header tells of them.
Status StoreFile::prepare_slots(uint64_t from, uint64_t to) {
  const uint64_t whole = slots_at_ + to * kBlockBytes;
  if (TRY(device_->size_bytes()) < whole) TRY(device_->grow(whole));
  TRY(device_->punch(slots_at_ + from * kBlockBytes, (to - from) * kBlockBytes));
  for (const uint64_t copy : {uint64_t{0}, copy_at_}) {
    const uint64_t entries_at = copy + kStoreEntriesAt + from * sizeof(StoreEntry);
    TRY(device_->punch(entries_at, (to - from) * sizeof(StoreEntry)));
    TRY(device_->reserve(entries_at, (to - from) * sizeof(StoreEntry)));
  }
  return sync();
}

Status StoreFile::resize(uint64_t slots, std::string* why) {
  const std::string sizes = fmt::format("store {}: holds {}, not the {} that were asked for", path_,
                                        format_size(slots_ * kBlockBytes), format_size(slots * kBlockBytes));
  const uint64_t table_end = has_keys_ ? keys_at() : copy_at_ != 0 ? copy_at_ : slots_at_;
  const uint64_t most = std::min((table_end - kStoreEntriesAt) / sizeof(StoreEntry), kStoreSlotsMost);
  if (slots == 0 || slots > most) {
    return refuse_store(why, EINVAL,
                        fmt::format("{}: it was made to grow to {} at most; leave the size out, or make a larger store "
                                    "and copy the files",
                                    sizes, format_size(most * kBlockBytes)));
  }
  const auto beyond =
      std::ranges::count_if(contents_.entries, [slots](const Entry& entry) { return entry.slot >= slots; }) +
      std::ranges::count_if(contents_.set_aside, [slots](uint32_t slot) { return slot >= slots; });
  if (beyond > 0) {
    return refuse_store(why, EINVAL,
                        fmt::format("{}: {} block(s) in use lie beyond; leave the size out", sizes, beyond));
  }
  StoreHeader header{};
  Status done = read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (done.ok()) done = slots > slots_ ? prepare_slots(slots_, slots) : prepare_slots(slots, slots_);
  if (done.ok()) done = write_header(resized_header(header, slots));
  if (!done.ok()) return refuse_store(why, path_, "cannot be given another size", done.code());
  log::info("store {}: {} from {} to {}", path_, slots > slots_ ? "grown" : "made smaller",
            format_size(slots_ * kBlockBytes), format_size(slots * kBlockBytes));
  slots_ = static_cast<uint32_t>(slots);
  return {};
}

}  // namespace brickfs
