// SPDX-License-Identifier: Apache-2.0
// The second copy of a store's header, volume records and block table: what is read is what either copy has, and both
// are made equal again. What was being written when the machine stopped may be in one copy only: then both states are
// allowed, as nobody was told that it is durable. One that is in use wins over zeros, which is what a lost sector may
// read as.
#include <fmt/core.h>
#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "server/store/store_file.h"
#include "server/store/store_refusal.h"
#include "transport/base/log.h"
#include "transport/base/zero.h"

namespace brickfs {
namespace {

constexpr uint64_t kCopyApart = kBlockBytes / 2;  // slots begin at a multiple of a block, the copy halfway
constexpr uint64_t kCopiedAtOnce = 256 * kKiB;
constexpr std::byte kUnreadable{0xff};  // in the place of what the disk does not give: verifies as nothing

std::string list_of(std::span<const uint32_t> numbers) {
  constexpr size_t kListed = 8;
  const std::string listed = fmt::format("{}", fmt::join(numbers.first(std::min(numbers.size(), kListed)), ", "));
  return numbers.size() > kListed ? fmt::format("{} and {} more", listed, numbers.size() - kListed) : listed;
}

// Keys are among what was read.
template <typename Record>
struct Overwritten {
  explicit Overwritten(std::array<std::vector<Record>, 2>& all) : copies(all) {}
  Overwritten(const Overwritten&) = delete;
  Overwritten& operator=(const Overwritten&) = delete;
  ~Overwritten() {
    for (auto& copy : copies) ::explicit_bzero(copy.data(), copy.size() * sizeof(Record));
  }
  std::array<std::vector<Record>, 2>& copies;
};

template <typename Record>
bool is_unused(const Record& record) {
  return is_zero(bytes_of(record));
}

}  // namespace

StoreHeader with_copy(StoreHeader header) {
  header.incompat_features |= kStoreCopied;
  header.checksum = store_checksum(header, 0);
  return header;
}

bool StoreFile::is_whole(const StoreVolume& record, uint32_t id) const {
  return is_sound(record) && record.checksum == store_checksum(record, uuid_[0] + id);
}

bool StoreFile::is_whole(const StoreEntry& entry, uint32_t slot) const {
  return entry.in_use == 1 && entry.checksum == store_checksum(entry, uuid_[1] + slot) &&
         is_valid({BlockAddress{entry.address}, 1}) && entry.serial <= kStoreNumbers && entry.volume < kStoreVolumes;
}

// Sector by sector where the disk does not give all.
void StoreFile::read_what_there_is(uint64_t offset, std::span<std::byte> into) const {
  if (read_at(offset, into).ok()) return;
  for (; !into.empty(); offset += kStoreSectorBytes) {
    const auto sector = into.first(std::min<uint64_t>(kStoreSectorBytes, into.size()));
    if (!read_at(offset, sector).ok()) std::ranges::fill(sector, kUnreadable);
    into = into.subspan(sector.size());
  }
}

// `records`: all of a kind, the first at `at`. Those whole in neither copy are `lost`, and zeros.
template <typename Record>
Status StoreFile::load_records(uint64_t at, const char* kind, std::vector<Record>& records,
                               std::vector<uint32_t>& lost) {
  std::array<std::vector<Record>, 2> copies;
  const Overwritten overwritten(copies);
  for (size_t i = 0; i < (copy_at_ != 0 ? 2 : 1); ++i) {
    copies[i].resize(records.size());
    read_what_there_is(at + i * copy_at_, std::as_writable_bytes(std::span(copies[i])));
  }
  std::vector<uint32_t> mended;
  for (uint32_t place = 0; place < records.size(); ++place) {
    const Record& first = copies[0][place];
    const Record& second = copy_at_ != 0 ? copies[1][place] : first;
    if (is_unused(first) && is_unused(second)) continue;
    if (is_whole(first, place)) {
      records[place] = first;
    } else if (is_whole(second, place)) {
      records[place] = second;
    } else if (!is_unused(first) && !is_unused(second)) {
      lost.push_back(place);
      continue;
    }
    if (std::ranges::equal(bytes_of(first), bytes_of(second))) continue;
    const auto is_damaged = [&](const Record& record) { return !is_unused(record) && !is_whole(record, place); };
    const Status written = write_both(at + place * sizeof(Record), bytes_of(records[place]));
    if (is_damaged(first) || is_damaged(second)) {
      mended.push_back(place);  // where the disk cannot be written any more the other copy still has it
    } else {
      TRY(written);
    }
  }
  if (!mended.empty())
    log::warn("store {}: {} {} damaged in one of two copies: mended from the other", path_, kind, list_of(mended));
  return {};
}

template Status StoreFile::load_records(uint64_t, const char*, std::vector<StoreVolume>&, std::vector<uint32_t>&);
template Status StoreFile::load_records(uint64_t, const char*, std::vector<StoreEntry>&, std::vector<uint32_t>&);
template Status StoreFile::load_records(uint64_t, const char*, std::vector<StoreKey>&, std::vector<uint32_t>&);

// The blocks of entries that neither copy has are set aside: nobody knows whose they are, and nothing is written to
// their slots. `repair`: they are given up.
Status StoreFile::set_aside(std::span<const uint32_t> lost, Damage damage) {
  if (lost.empty()) return {};
  if (damage == Damage::kKeep) {
    contents_.set_aside.assign(lost.begin(), lost.end());
    log::error(
        "store {}: entry {} of its block table is damaged: that block is missing, and its volume, where it is needed, "
        "mounted read-only (`brickctl check` names the file, `check --repair` goes on without it; brickd "
        "--repair-store gives the room back)",
        path_, list_of(lost));
    return {};
  }
  for (const uint32_t slot : lost) TRY(clear_entry(slot));
  log::warn("store {}: entry {} of its block table was damaged: its block is given up", path_, list_of(lost));
  return {};
}

// A volume that has blocks, and no record that could be read, is there by another name; what it holds is as it was. Its
// epoch is one that nobody had yet: epochs begin with the time, in microseconds, at the latest.
Status StoreFile::save_volumes(std::span<const uint32_t> lost) {
  std::array<bool, kStoreVolumes> has_blocks{};
  for (const Entry& entry : contents_.entries) has_blocks[entry.volume] = true;
  for (uint32_t id = 0; id < kStoreVolumes; ++id) {
    const bool is_lost = std::ranges::find(lost, id) != lost.end();
    StoreVolume& record = contents_.volumes[id];
    if (!has_blocks[id] && is_lost) {
      log::error("store {}: the record of volume {}, which has no blocks, is damaged: it is given up", path_, id);
      TRY(erase_volume(id));
    }
    if (!has_blocks[id] || record.in_use != 0) continue;
    const std::string name = fmt::format("damaged-{}", id);
    using std::chrono::microseconds;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    name.copy(record.name.data(), record.name.size() - 1);
    record.quota_blocks = UINT64_MAX;
    record.epoch = static_cast<uint64_t>(std::chrono::duration_cast<microseconds>(now).count());
    record.in_use = kVolumeInUse;
    record.keyed = has_keys_ ? 1 : 0;  // nobody knows whether it had one
    TRY(write_volume(id, record));
    log::error("store {}: the record of volume {} is damaged: its blocks are there as volume '{}', without a size",
               path_, id, name);
  }
  return {};
}

// The header's second copy is halfway to the slots, wherever those are. What a client has stored in a block may look
// like one: whoever made that does not know the uuid that a record verifies with.
std::optional<StoreHeader> StoreFile::find_header_copy(uint64_t file_bytes) const {
  const uint64_t most = std::min(file_bytes, store_slots_at(kStoreSlotsMost));
  for (uint64_t at = kCopyApart; at + sizeof(StoreHeader) <= most; at += kCopyApart) {
    StoreHeader header{};
    read_what_there_is(at, std::as_writable_bytes(std::span(&header, 1)));
    if (header.magic != kStoreMagic || header.checksum != store_checksum(header, 0)) continue;
    if ((header.incompat_features & kStoreCopied) != 0 && copy_begins(header) == at && has_record_of(header))
      return header;
  }
  return std::nullopt;
}

bool StoreFile::has_record_of(const StoreHeader& header) const {
  std::vector<StoreVolume> records(kStoreVolumes);
  read_what_there_is(kStoreVolumesAt, std::as_writable_bytes(std::span(records)));
  bool none = true;
  for (uint32_t id = 0; id < kStoreVolumes; ++id) {
    if (is_unused(records[id])) continue;
    none = false;
    if (is_sound(records[id]) && records[id].checksum == store_checksum(records[id], header.uuid[0] + id)) return true;
  }
  return none;
}

// A store of an older brickd gets its second copy where its table has room for that: all of it is durable before the
// header says that it is there.
Status StoreFile::make_copy(std::string* why) {
  if (copy_at_ != 0) return {};
  if (!copy_fits(slots_, slots_at_)) {
    log::warn("store {}: was made without room for a second copy of its table: damage there costs blocks", path_);
    return {};
  }
  const uint64_t end = kStoreEntriesAt + slots_ * sizeof(StoreEntry);
  if (!device_->reserve(slots_at_ / 2, end).ok()) {
    log::warn("store {}: its disk has no room for a second copy of its table, until it is opened with more", path_);
    return {};
  }
  const auto copy = [this, end]() -> Status {
    std::vector<std::byte> bytes(kCopiedAtOnce);
    for (uint64_t at = 0; at < end; at += bytes.size()) {
      bytes.resize(std::min<uint64_t>(bytes.size(), end - at));
      TRY(read_at(at, bytes));
      TRY(write_at(slots_at_ / 2 + at, bytes));
    }
    TRY(sync());
    StoreHeader header{};
    TRY(read_at(0, std::as_writable_bytes(std::span(&header, 1))));
    copy_at_ = slots_at_ / 2;
    return write_header(with_copy(header));
  };
  const Status copied = copy();
  if (!copied.ok()) return refuse_store(why, path_, "cannot be given a second copy of its table", copied.code());
  log::info("store {}: has a second copy of its table from now on; a brickd older than this does not open it", path_);
  return {};
}

Status StoreFile::write_both(uint64_t offset, std::span<const std::byte> from) {
  TRY(write_at(offset, from));
  return copy_at_ != 0 ? write_at(copy_at_ + offset, from) : Status();
}

}  // namespace brickfs
