// SPDX-License-Identifier: Apache-2.0
// The bytes of a store file: docs/format.md, "Store". Little-endian.
//
//   0        header, one page: header, records and table are there twice, the second time halfway to the slots
//   4 KiB    volume records, kStoreVolumes of 256 bytes
//   260 KiB  block table, one entry of 32 bytes for each slot
//   ...      keys of volumes, kStoreKeys of 64 bytes at the end of what each copy has room for: with kStoreKeyed
//   ...      slots of one block each, the first at the next multiple of kBlockBytes
//   behind   the list of shadows, and a shadow for each slot: while there are any
//
// Records and entries never cross a 512-byte sector, which a disk writes whole or not at all. All zeros: unused.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/base/bytes.h"
#include "transport/brick/block.h"
#include "transport/brick/limits.h"

namespace brickfs {

constexpr std::array<char, 8> kStoreMagic = {'b', 'r', 'i', 'c', 'k', 's', 't', 'o'};
constexpr uint32_t kStoreVersion = 1;
constexpr uint64_t kStoreHeaderBytes = 4096;
constexpr uint64_t kStoreSectorBytes = 512;  // which a disk writes whole or not at all
constexpr uint64_t kStoreVolumes = limits::kVolumes;
constexpr uint64_t kStoreSlotsMost = 1ull << 26;  // 128 TiB
constexpr uint64_t kStoreSlotsApart = 1;          // incompatible feature: `slots_at` is not 0
constexpr uint64_t kStoreShadows = 2;             // incompatible feature: the list of shadows holds
constexpr uint64_t kStoreCopied = 4;              // incompatible feature: header, records and table have a second copy
constexpr uint64_t kStoreKeyed = 8;               // incompatible feature: there are keys of volumes behind each table
constexpr uint64_t kStoreGrowth = 8;              // a new store's table has room for so many times its slots
constexpr uint64_t kStoreNumbers = INT64_MAX;     // the largest epoch, and serial of an entry

struct StoreHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t block_bytes;
  uint64_t compat_features;     // unknown bits: read and write all the same
  uint64_t ro_compat_features;  // unknown bits: refuse (a store is never opened for reading only)
  uint64_t incompat_features;   // unknown bits: refuse
  std::array<uint64_t, 2> uuid;
  uint64_t slots;
  uint64_t slots_at;  // where they begin; 0: right behind the table
  std::array<std::byte, kStoreHeaderBytes - 88> reserved;
  uint64_t resize_to;  // slots that the checksum is for: store_resize.cc; 0: as above
  uint64_t checksum;   // XXH3 of all before it
};
static_assert(sizeof(StoreHeader) == kStoreHeaderBytes && offsetof(StoreHeader, slots) == 56 &&
              offsetof(StoreHeader, resize_to) == 4080 && offsetof(StoreHeader, checksum) == kStoreHeaderBytes - 8);

constexpr uint32_t kVolumeInUse = 1;
constexpr uint32_t kVolumeGoing = 2;  // it was removed: who opens the store frees what blocks there are of it left

// Position in the table = the volume's id.
struct StoreVolume {
  std::array<char, 64> name;  // zero-terminated
  uint64_t quota_blocks;      // UINT64_MAX: none
  uint64_t epoch;
  uint64_t holder_client;  // of the exclusive holder who has not given up the lease; else 0
  int64_t holder_since;    // seconds since 1970
  std::array<char, 128> holder_name;
  uint32_t lease_mode;  // 0 none, else OpenMode
  uint32_t in_use;      // kVolumeInUse or kVolumeGoing
  std::array<std::byte, 8> reserved;
  uint32_t keyed;  // 1: it has had a key, so its keys alone open it
  std::array<std::byte, 4> reserved2;
  uint64_t checksum;  // XXH3 of all before it, seeded with uuid[0] + position
};
static_assert(sizeof(StoreVolume) == 256 && offsetof(StoreVolume, holder_name) == 96 &&
              offsetof(StoreVolume, keyed) == 240 && offsetof(StoreVolume, checksum) == 248);

// Position in the table = the slot.
struct StoreEntry {
  uint64_t address;   // of the block
  uint32_t volume;    // id
  uint32_t in_use;    // 1
  uint64_t serial;    // grows with each entry written: of two for one block the younger holds
  uint64_t checksum;  // XXH3 of all before it, seeded with uuid[1] + position
};
static_assert(sizeof(StoreEntry) == 32 && offsetof(StoreEntry, checksum) == 24);

constexpr uint64_t kStoreKeys = limits::kKeys;

// A key of a volume; its place says nothing.
struct StoreKey {
  uint32_t volume;           // id
  uint32_t rights;           // KeyRights
  uint64_t id;               // KeyId
  int64_t added;             // seconds since 1970
  std::array<char, 32> key;  // with zeros behind it
  uint64_t checksum;         // XXH3 of all before it, seeded with uuid[0] + kStoreVolumes + place
};
static_assert(sizeof(StoreKey) == 64 && offsetof(StoreKey, key) == 24 && offsetof(StoreKey, checksum) == 56);

// A slot's shadow has pages that are newer than the slot's, of a block that its writer left uncommitted:
// store_shadows.cc.
constexpr std::array<char, 8> kShadowsMagic = {'b', 'r', 'i', 'c', 'k', 's', 'h', 'd'};

constexpr uint64_t kShadowPageBytes = 4096;
constexpr uint64_t kShadowPages = kBlockBytes / kShadowPageBytes;
static_assert(kShadowPages % 64 == 0);

struct StoreShadow {
  uint64_t slot;
  std::array<uint64_t, kShadowPages / 64> pages;  // a bit for each that is there, the lowest first
};
static_assert(sizeof(StoreShadow) == 8 + kShadowPages / 8);

struct StoreShadowList {
  std::array<char, 8> magic;
  uint64_t count;
  uint64_t checksum;  // XXH3 of the StoreShadows that follow, seeded with uuid[0]
};
static_assert(sizeof(StoreShadowList) == 24);

constexpr uint64_t kStoreVolumesAt = kStoreHeaderBytes;
constexpr uint64_t kStoreEntriesAt = kStoreVolumesAt + kStoreVolumes * sizeof(StoreVolume);
constexpr uint64_t store_slots_at(uint64_t slots) {
  return round_up(kStoreEntriesAt + slots * sizeof(StoreEntry), kBlockBytes);
}
constexpr uint64_t slots_begin(const StoreHeader& header) {
  return header.slots_at != 0 ? header.slots_at : store_slots_at(header.slots);
}
constexpr uint64_t copy_begins(const StoreHeader& header) { return slots_begin(header) / 2; }
constexpr bool copy_fits(uint64_t slots, uint64_t slots_at) {
  return kStoreEntriesAt + slots * sizeof(StoreEntry) <= slots_at / 2;
}
// The keys stand at the end of what each copy has room for.
constexpr uint64_t kStoreKeysBytes = kStoreKeys * sizeof(StoreKey);
constexpr bool keys_fit(uint64_t slots, uint64_t slots_at) {
  return kStoreEntriesAt + slots * sizeof(StoreEntry) + kStoreKeysBytes <= slots_at / 2;
}
// From where the slots begin. The room between is for a list of all of them.
constexpr uint64_t shadows_begin(uint64_t slots) {
  return slots * kBlockBytes + round_up(sizeof(StoreShadowList) + slots * sizeof(StoreShadow), kBlockBytes);
}
// In use, and all numbers within bounds; its checksum is another matter.
bool is_sound(const StoreVolume& record);
bool is_sound(const StoreKey& record);
// The header when it has so many slots.
StoreHeader resized_header(StoreHeader header, uint64_t slots);
// The header with that feature, or without.
StoreHeader with_shadows(StoreHeader header, bool has_list);
// The header of a store that has a second copy of it.
StoreHeader with_copy(StoreHeader header);
// The header of one that has room for keys.
StoreHeader with_keys(StoreHeader header);

// The checksum that belongs into `record`, whose last field it is.
template <typename Record>
uint64_t store_checksum(const Record& record, uint64_t seed) {
  return XXH3_64bits_withSeed(&record, offsetof(Record, checksum), seed);
}

}  // namespace brickfs
