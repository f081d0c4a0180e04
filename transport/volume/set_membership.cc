// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/set_membership.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/base/check.h"
#include "transport/base/zero.h"

namespace brickfs {
namespace {

template <typename Stored>
uint64_t checksum_of_set(const Stored& stored) {
  return XXH3_64bits(&stored, offsetof(Stored, checksum));
}

template <typename Stored>
bool is_sound(const Stored& stored) {
  return stored.magic == Stored::kMagic && stored.checksum == checksum_of_set(stored);
}

template <typename Stored>
Status read_stored(VolumeClient& volume, uint64_t address, Stored& stored, Pace pace = Pace::kWaits) {
  const Piece piece{address, {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  return pace == Pace::kAtOnce ? volume.try_read(std::span(&piece, 1)) : volume.read(std::span(&piece, 1));
}

// Before anything of the next step.
template <typename Stored>
Status write_stored(VolumeClient& volume, uint64_t address, Stored& stored) {
  stored.checksum = checksum_of_set(stored);
  const Piece piece{address, {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  TRY(volume.write(std::span(&piece, 1), Stage::kSuperblock));
  return volume.commit();
}

// Zeros where a write that was cut off has left part of something. True: to be committed, before anything else is
// written there, which could make that whole if it is cut off, too.
template <typename Stored>
Result<bool> clear_torn(VolumeClient& volume, uint64_t address, Stage stage) {
  Stored stored;
  TRY(read_stored(volume, address, stored));
  if (is_sound(stored) || is_zero(std::as_bytes(std::span(&stored, 1)))) return false;
  std::array<std::byte, sizeof(stored)> zeros{};
  const Piece piece{address, {{zeros.data(), zeros.size(), 0}}};
  TRY(volume.write(std::span(&piece, 1), stage));
  return true;
}

// Both slots of something in the first block of a place, of a brick where nothing is mapped.
template <typename Stored>
Status read_slots(Brick& brick, size_t place, const std::array<uint64_t, 2>& offsets, std::array<Stored, 2>& slots) {
  const BlockRange block = first_block_of(place);
  const auto handles = TRY(brick.map(block, Access::kRead));
  std::array<LocalSlice, 2> slices;
  Batch batch;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    slices[slot] = {reinterpret_cast<std::byte*>(&slots[slot]), sizeof(Stored), 0};
    batch.transfers.push_back(
        {Direction::kRead, handles.front(), offsets[slot], std::span<const LocalSlice>(&slices[slot], 1)});
  }
  brick.submit(batch);
  TRY(brick.wait(batch));
  return brick.unmap(block);
}

uint64_t highest_count(std::span<const StoredCommitCount> slots, const SetId& set, size_t place) {
  uint64_t highest = 0;
  for (const StoredCommitCount& stored : slots) {
    if (is_sound(stored) && stored.set == set && stored.place == place) highest = std::max(highest, stored.number);
  }
  return highest;
}

MemberTable decode_member_table(const StoredMemberTable& stored) {
  MemberTable table{stored.set, stored.generation, {}};
  for (uint64_t place = 0; place < stored.places; ++place) {
    const StoredMember& member = stored.members[place];
    table.members.push_back({member.id, std::string(member.name, strnlen(member.name, sizeof(member.name) - 1))});
  }
  return table;
}

std::optional<ReplicaMark> newest_mark(std::span<const StoredReplicaMark> slots, size_t place) {
  std::optional<ReplicaMark> newest;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const StoredReplicaMark& stored = slots[slot];
    if (!is_sound(stored) || stored.place != place) continue;
    if (!newest || stored.generation > newest->generation) {
      newest = {stored.set, stored.replica, stored.generation, slot};
    }
  }
  return newest;
}

std::string names_of(const MemberTable& table) {
  std::string names;
  for (const MemberTable::Member& member : table.members) names += (names.empty() ? "" : " + ") + member.name;
  return names;
}

}  // namespace

Result<std::optional<MemberTable>> read_member_table(VolumeClient& first) {
  std::optional<MemberTable> newest;
  for (const uint64_t address : kMemberTableAddress) {
    StoredMemberTable stored;
    TRY(read_stored(first, address, stored));
    if (!is_sound(stored) || stored.places < 2 || stored.places > limits::kBricksPerSet) continue;
    if (!newest || stored.generation > newest->generation) newest = decode_member_table(stored);
  }
  return newest;
}

Status write_member_table(VolumeClient& first, MemberTable& table) {
  CHECK(table.members.size() >= 2 && table.members.size() <= limits::kBricksPerSet);
  StoredMemberTable stored;
  stored.set = table.set;
  stored.generation = ++table.generation;
  stored.places = table.members.size();
  for (size_t place = 0; place < table.members.size(); ++place) {
    stored.members[place].id = table.members[place].id;
    table.members[place].name.copy(stored.members[place].name, sizeof(StoredMember::name) - 1);
  }
  // Never the slot of the one in force. What is torn there was of the same generation, with other members.
  const uint64_t address = kMemberTableAddress[table.generation % 2];
  if (TRY(clear_torn<StoredMemberTable>(first, address, Stage::kSuperblock))) TRY(first.commit());
  return write_stored(first, address, stored);
}

Result<std::optional<MemberMark>> read_member_mark(VolumeClient& member, size_t place) {
  const uint64_t block = raw(first_block_of(place).start);
  for (const uint64_t offset : {StoredMemberMark::kJoinedOffset, StoredMemberMark::kJoiningOffset}) {
    StoredMemberMark stored;
    TRY(read_stored(member, block + offset, stored));
    if (!is_sound(stored) || stored.place != place) continue;
    return std::optional(MemberMark{stored.set, stored.member, stored.place, stored.joined == 1});
  }
  return std::optional<MemberMark>();
}

Status write_member_mark(VolumeClient& member, const MemberMark& mark) {
  StoredMemberMark stored;
  stored.set = mark.set;
  stored.member = mark.member;
  stored.place = mark.place;
  stored.joined = mark.joined ? 1 : 0;
  const uint64_t offset = mark.joined ? StoredMemberMark::kJoinedOffset : StoredMemberMark::kJoiningOffset;
  return write_stored(member, raw(first_block_of(mark.place).start) + offset, stored);
}

Result<std::optional<ReplicaMark>> read_replica_mark(VolumeClient& replica, size_t place, Pace pace) {
  std::array<StoredReplicaMark, 2> slots;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const uint64_t address = raw(first_block_of(place).start) + kReplicaMarkOffset + slot * kReplicaMarkSlotBytes;
    TRY(read_stored(replica, address, slots[slot], pace));
  }
  return newest_mark(slots, place);
}

Result<std::optional<ReplicaMark>> read_replica_mark(Brick& brick, size_t place) {
  std::array<StoredReplicaMark, 2> slots;
  TRY(read_slots(brick, place, {kReplicaMarkOffset, kReplicaMarkOffset + kReplicaMarkSlotBytes}, slots));
  return newest_mark(slots, place);
}

Status write_replica_mark(VolumeClient& replica, size_t place, const ReplicaMark& mark, Pace pace) {
  StoredReplicaMark stored;
  stored.set = mark.set;
  stored.replica = mark.replica;
  stored.place = place;
  stored.generation = mark.generation;
  stored.checksum = checksum_of_set(stored);
  const auto newest = TRY(read_replica_mark(replica, place, pace));
  const uint64_t slot = newest ? 1 - newest->slot : 0;
  const uint64_t address = raw(first_block_of(place).start) + kReplicaMarkOffset + slot * kReplicaMarkSlotBytes;
  const Piece piece{address, {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  return pace == Pace::kAtOnce ? replica.try_write(std::span(&piece, 1))
                               : replica.write(std::span(&piece, 1), Stage::kData);
}

Result<uint64_t> read_bitmap_number(VolumeClient& replica, const SetId& set, size_t place) {
  StoredBitmapHeader stored;
  TRY(read_stored(replica, raw(first_block_of(place).start) + kBitmapOffset, stored));
  return is_sound(stored) && stored.set == set && stored.place == place ? stored.number : 0;
}

StoredBitmapHeader encode_bitmap_header(const SetId& set, size_t place, uint64_t number) {
  StoredBitmapHeader stored;
  stored.set = set;
  stored.place = place;
  stored.number = number;
  stored.checksum = checksum_of_set(stored);
  return stored;
}

Result<std::optional<CommitRecord>> read_commit_record(VolumeClient& first, const SetId& set) {
  std::optional<CommitRecord> newest;
  for (const uint64_t address : kCommitRecordAddress) {
    StoredCommitSlot slot;
    TRY(read_stored(first, address, slot));
    const StoredCommitRecord& stored = slot.record;
    if (!is_sound(stored) || stored.set != set || stored.places > limits::kBricksPerSet) continue;
    if (newest && newest->number > stored.number) continue;
    newest = CommitRecord{stored.number, stored.position, {}, {}};
    const bool has_counts = is_sound(slot.counts) && slot.counts.set == set && slot.counts.number == stored.number;
    for (uint64_t place = 0; place < stored.places; ++place) {
      newest->boots.push_back(BootId{stored.boots[place]});
      newest->counts.push_back(has_counts ? slot.counts.counts[place] : 0);
    }
  }
  return newest;
}

Status clear_torn_commit_record(VolumeClient& first) {
  bool cleared = false;
  for (const uint64_t address : kCommitRecordAddress) {
    cleared |= TRY(clear_torn<StoredCommitRecord>(first, address, Stage::kJournal));
  }
  return cleared ? first.commit() : Status();
}

StoredCommitSlot encode_commit_record(const SetId& set, uint64_t number, uint64_t position,
                                      std::span<const BootId> boots, std::span<const uint64_t> counts) {
  StoredCommitSlot slot;
  StoredCommitRecord& stored = slot.record;
  stored.set = set;
  stored.number = number;
  stored.position = position;
  stored.places = boots.size();
  for (size_t place = 1; place < boots.size(); ++place) stored.boots[place] = static_cast<uint64_t>(boots[place]);
  stored.checksum = checksum_of_set(stored);
  slot.counts.set = set;
  slot.counts.number = number;
  std::ranges::copy(counts, slot.counts.counts);
  slot.counts.checksum = checksum_of_set(slot.counts);
  return slot;
}

Result<uint64_t> read_commit_count(VolumeClient& member, const SetId& set, size_t place) {
  std::array<StoredCommitCount, 2> slots;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    TRY(read_stored(member, raw(first_block_of(place).start) + StoredCommitCount::kOffset[slot], slots[slot]));
  }
  return highest_count(slots, set, place);
}

Result<uint64_t> read_commit_count(Brick& brick, const SetId& set, size_t place) {
  std::array<StoredCommitCount, 2> slots;
  TRY(read_slots(brick, place, StoredCommitCount::kOffset, slots));
  return highest_count(slots, set, place);
}

StoredCommitCount encode_commit_count(const SetId& set, size_t place, uint64_t number) {
  StoredCommitCount stored;
  stored.set = set;
  stored.place = place;
  stored.number = number;
  stored.checksum = checksum_of_set(stored);
  return stored;
}

Result<BlockSet> read_activity_log(VolumeClient& replica, size_t place) {
  std::vector<uint64_t> rows(kActivityRows);
  const Piece piece{raw(first_block_of(place).start) + kActivityLogOffset,
                    {{reinterpret_cast<std::byte*>(rows.data()), static_cast<uint32_t>(kActivityLogBytes), 0}}};
  TRY(replica.read(std::span(&piece, 1)));
  BlockSet blocks;
  for (const uint64_t row : rows) {
    const BlockRange block{block_of(row - 1), 1};
    if (row != 0 && is_valid(block)) blocks.insert(block);
  }
  return blocks;
}

Result<std::string> describe_membership(VolumeClient& volume, std::span<const BlockRange> listed) {
  for (size_t place = 0; place < limits::kBricksPerSet; ++place) {
    if (!contains_block(listed, first_block_of(place).start)) continue;
    const auto mark = TRY(read_replica_mark(volume, place));
    if (!mark) continue;
    return fmt::format("it is a copy of place {} of the replicated volume {}: mount that by its map (etcd://...)",
                       place, text_of(mark->set));
  }
  if (contains_block(listed, first_block_of(0).start)) {
    const auto table = TRY(read_member_table(volume));
    if (!table) return std::string();
    return fmt::format("it is the first of the {} bricks of a striped volume: name them all, as {}",
                       table->members.size(), names_of(*table));
  }
  for (size_t place = 1; place < limits::kBricksPerSet; ++place) {
    if (!contains_block(listed, first_block_of(place).start)) continue;
    const auto mark = TRY(read_member_mark(volume, place));
    if (!mark || !mark->joined) continue;
    return fmt::format("it is brick {} of the striped volume {}: name all of its bricks, the first one first",
                       place + 1, text_of(mark->set));
  }
  return std::string();
}

bool contains_block(std::span<const BlockRange> listed, BlockAddress block) {
  return std::ranges::any_of(listed,
                             [block](const BlockRange& range) { return range.start <= block && block < range.end(); });
}

std::string text_of(const SetId& id) {
  std::string text;
  for (size_t i = 0; i < id.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned>(id[i]));
  }
  return text;
}

}  // namespace brickfs
