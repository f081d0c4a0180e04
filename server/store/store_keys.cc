// SPDX-License-Identifier: Apache-2.0
// The keys of a store's volumes. They stand where a table that grows would come last, at the end of what each of the
// two copies has room for, from the first key on: room is made durably before the header says that it is there.
//
// A key is in memory that no core dump has, and in passing where it is overwritten.
#include <string.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "server/store/store_file.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

// Overwritten when it goes.
struct PassingKeys {
  explicit PassingKeys(size_t count) : records(count) {}
  PassingKeys(const PassingKeys&) = delete;
  PassingKeys& operator=(const PassingKeys&) = delete;
  ~PassingKeys() { ::explicit_bzero(records.data(), records.size() * sizeof(StoreKey)); }

  std::vector<StoreKey> records;
};

}  // namespace

bool is_sound(const StoreKey& record) {
  const bool known_rights = record.rights == static_cast<uint32_t>(KeyRights::kReadOnly) ||
                            record.rights == static_cast<uint32_t>(KeyRights::kReadWrite);
  return known_rights && record.volume < kStoreVolumes && record.key.front() != 0;
}

StoreKey store_key_of(uint32_t volume, const VolumeKey& key) {
  StoreKey record{.volume = volume,
                  .rights = static_cast<uint32_t>(key.rights),
                  .id = static_cast<uint64_t>(key.id),
                  .added = key.added_unix_seconds,
                  .key = {},
                  .checksum = 0};
  const std::string_view bytes = key.secret.bytes.view();
  std::memcpy(record.key.data(), bytes.data(), std::min(bytes.size(), record.key.size()));
  return record;
}

VolumeKey key_in(const StoreKey& record) {
  size_t length = record.key.size();
  while (length > 0 && record.key[length - 1] == '\0') --length;
  return {KeyId{record.id}, KeyRights{record.rights}, record.added,
          Secret{std::string_view(record.key.data(), length)}};
}

StoreHeader with_keys(StoreHeader header) {
  header.incompat_features |= kStoreKeyed;
  header.checksum = store_checksum(header, 0);
  return header;
}

bool StoreFile::is_whole(const StoreKey& key, uint32_t place) const {
  return is_sound(key) && key.checksum == store_checksum(key, uuid_[0] + kStoreVolumes + place);
}

Status StoreFile::prepare_keys() {
  MutexLock lock(keys_mutex_);
  if (has_keys_) return {};
  if (copy_at_ == 0 || !keys_fit(slots_, slots_at_)) {
    log::error(
        "store {}: has no room for keys of volumes behind its table, which has grown into it, or is of an older "
        "brickd",
        path_);
    return Error(ENOTSUP, "the store has no room for keys");
  }
  for (const uint64_t at : {keys_at(), copy_at_ + keys_at()}) {
    TRY(counted(device_->punch(at, kStoreKeysBytes)));
    TRY(counted(device_->reserve(at, kStoreKeysBytes)));
  }
  TRY(sync());
  StoreHeader header{};
  TRY(read_at(0, std::as_writable_bytes(std::span(&header, 1))));
  TRY(write_header(with_keys(header)));
  has_keys_ = true;
  log::info("store {}: has room for keys of volumes from now on; a brickd older than this does not open it", path_);
  return {};
}

Status StoreFile::write_key(uint32_t place, uint32_t volume, const VolumeKey& key) {
  PassingKeys passing(1);
  StoreKey& record = passing.records.front();
  record = store_key_of(volume, key);
  record.checksum = store_checksum(record, uuid_[0] + kStoreVolumes + place);
  return write_both(keys_at() + place * sizeof(StoreKey), bytes_of(record));
}

Status StoreFile::erase_key(uint32_t place) {
  return write_both(keys_at() + place * sizeof(StoreKey), bytes_of(StoreKey{}));
}

// One that is damaged in both copies is nobody's any more: its volume stays closed to others.
Status StoreFile::load_keys() {
  PassingKeys found(kStoreKeys);
  std::vector<uint32_t> lost;
  TRY(load_records(keys_at(), "key", found.records, lost));
  for (const uint32_t place : lost) {
    log::error("store {}: key {} is damaged, and given up: whoever has it is refused; add another", path_, place);
    TRY(erase_key(place));
  }
  for (uint32_t place = 0; place < kStoreKeys; ++place) {
    const StoreKey& record = found.records[place];
    if (record.rights == 0) continue;
    if (contents_.volumes[record.volume].in_use == 0) {
      TRY(erase_key(place));
      continue;
    }
    contents_.keys.push_back({place, record.volume, key_in(record)});
  }
  return {};
}

}  // namespace brickfs
