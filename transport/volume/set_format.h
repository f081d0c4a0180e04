// SPDX-License-Identifier: Apache-2.0
// What a set keeps on its bricks beside the volume: docs/format.md, section "Sets". Little-endian.
//
// Place 0, in the superblock's block between its second slot and the mark: the *member table* (which bricks belong to
// the set) and the *commit record* (what was durable on the other bricks, in which of their lives, and how many commits
// each had had), two slots each. Every other place, in its first block: the member's *mark*, twice, and the *commit
// count*, in two slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/brick/limits.h"
#include "transport/membership/set_id.h"
#include "transport/volume/group.h"

namespace brickfs {

constexpr size_t kSetSlotBytes = 4096;
constexpr uint64_t kMarkBytes = 4096;  // at the end of the superblock's block: fs/persistence/volume_mark.h
constexpr std::array<uint64_t, 2> kMemberTableAddress = {kBlockBytes - kMarkBytes - 2 * kSetSlotBytes,
                                                         kBlockBytes - kMarkBytes - kSetSlotBytes};
constexpr std::array<uint64_t, 2> kCommitRecordAddress = {kMemberTableAddress[0] - 2 * kSetSlotBytes,
                                                          kMemberTableAddress[0] - kSetSlotBytes};

struct StoredMember {
  MemberId id{};
  char name[40] = {};  // for people: the address by which it joined, ended by a zero byte
};

struct StoredMemberTable {
  static constexpr uint64_t kMagic = 0x314c'4f52'4b43'5242;  // "BRCKROL1"

  uint64_t magic = kMagic;
  SetId set{};
  uint64_t generation = 0;  // the higher one is in force
  uint64_t places = 0;      // at least 2
  StoredMember members[limits::kBricksPerSet] = {};
  std::byte reserved[464] = {};
  uint64_t checksum = 0;  // xxh3-64 of all bytes before, not seeded
};
static_assert(sizeof(StoredMemberTable) == kSetSlotBytes && offsetof(StoredMemberTable, members) == 40);
static_assert(offsetof(StoredMemberTable, checksum) == 4088);
static_assert(std::has_unique_object_representations_v<StoredMemberTable>);

struct StoredMemberMark {
  static constexpr uint64_t kMagic = 0x314d'454d'4b43'5242;  // "BRCKMEM1"
  // Written one after the other, each durable before the next step: with the first alone the brick is about to join and
  // has nothing of the set yet; with the second it belongs to it.
  static constexpr uint64_t kJoiningOffset = 0;
  static constexpr uint64_t kJoinedOffset = 4096;

  uint64_t magic = kMagic;
  SetId set{};
  MemberId member{};
  uint64_t place = 0;
  uint64_t joined = 0;    // 1 in the second
  uint64_t checksum = 0;  // xxh3-64 of the 56 bytes before, not seeded
};
static_assert(sizeof(StoredMemberMark) == 64 && offsetof(StoredMemberMark, checksum) == 56);

struct StoredCommitRecord {
  static constexpr uint64_t kMagic = 0x3152'4d43'4b43'5242;  // "BRCKCMR1"

  uint64_t magic = kMagic;
  SetId set{};
  uint64_t number = 0;    // the higher one is in force
  uint64_t position = 0;  // what is in the volume's journal up to this transaction is durable on every other place
  uint64_t places = 0;
  uint64_t boots[limits::kBricksPerSet] = {};  // boot id of each place's brick, by place; [0] is not used
  uint64_t checksum = 0;                       // xxh3-64 of all bytes before, not seeded
};
static_assert(sizeof(StoredCommitRecord) == 568 && offsetof(StoredCommitRecord, checksum) == 560);

// Behind the record, and of no other: a program that does not know of it has left one of an earlier record there.
struct StoredCommitCounts {
  static constexpr uint64_t kMagic = 0x3153'4e43'4b43'5242;  // "BRCKCNS1"

  uint64_t magic = kMagic;
  SetId set{};
  uint64_t number = 0;                          // of the record
  uint64_t counts[limits::kBricksPerSet] = {};  // by place: it durably has this one, or a higher one. 0: nobody knows
  uint64_t checksum = 0;                        // xxh3-64 of all bytes before, not seeded
};
static_assert(sizeof(StoredCommitCounts) == 552 && offsetof(StoredCommitCounts, checksum) == 544);

struct StoredCommitSlot {
  StoredCommitRecord record;
  StoredCommitCounts counts;
};
static_assert(sizeof(StoredCommitSlot) == 1120 && offsetof(StoredCommitSlot, counts) == 568);

// On each other place, in its first block.
struct StoredCommitCount {
  static constexpr uint64_t kMagic = 0x3154'4e43'4b43'5242;                         // "BRCKCNT1"
  static constexpr std::array<uint64_t, 2> kOffset = {8192, 8192 + kSetSlotBytes};  // the number's slot, modulo 2

  uint64_t magic = kMagic;
  SetId set{};
  uint64_t place = 0;
  uint64_t number = 0;    // the higher one is in force
  uint64_t checksum = 0;  // xxh3-64 of the 40 bytes before, not seeded
};
static_assert(sizeof(StoredCommitCount) == 48 && offsetof(StoredCommitCount, checksum) == 40);

}  // namespace brickfs
