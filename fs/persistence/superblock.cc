// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/superblock.h"

#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "fmt/core.h"
#include "fs/persistence/checkpoint_format.h"
#include "transport/base/check.h"
#include "transport/base/printable.h"
#include "transport/base/random.h"
#include "transport/brick/limits.h"
#include "transport/volume/replica_format.h"

namespace brickfs {
namespace {

constexpr size_t kSlotBytes = 4096;
constexpr size_t kLabelBytes = 64;
static_assert(kSuperblockSlots[1] + kSlotBytes <= kReplicaAreaOffset);

struct StoredRun {
  uint64_t start = 0;
  uint64_t count = 0;
};

// docs/format.md, section "Superblock". The members up to `generation` and the checksum stay where they are in all
// versions.
struct StoredSuperblock {
  uint64_t magic = kSuperblockMagic;
  uint32_t version = 0;
  uint32_t runs = 0;  // of the checkpoint
  uint64_t compat = 0;
  uint64_t ro_compat = 0;
  uint64_t incompat = 0;
  std::byte uuid[16] = {};
  uint64_t generation = 0;
  int64_t created = 0;
  uint64_t next_ino = 0;
  uint64_t replay_from = 0;
  uint64_t journal_block = 0;
  uint64_t checkpoint_id = 0;
  uint64_t checkpoint_chunks = 0;
  uint64_t checkpoint_rows = 0;
  uint64_t checkpoint_row_bytes = 0;
  uint64_t checkpoint_checksum = 0;
  char label[kLabelBytes] = {};  // ended by a zero byte
  StoredRun checkpoint_runs[kCheckpointRuns] = {};
  uint64_t replay_through = 0;
  std::byte reserved[1832] = {};
  uint64_t checksum = 0;  // xxh3-64 of all bytes before, not seeded
};
static_assert(sizeof(StoredSuperblock) == kSlotBytes);
static_assert(offsetof(StoredSuperblock, generation) == 56 && offsetof(StoredSuperblock, label) == 136);
static_assert(offsetof(StoredSuperblock, checkpoint_runs) == 200 && offsetof(StoredSuperblock, replay_through) == 2248);
static_assert(offsetof(StoredSuperblock, checksum) == 4088);
static_assert(std::has_unique_object_representations_v<StoredSuperblock>);

// Blocks that may hold metadata.
bool is_usable(const BlockRange& blocks) {
  return is_valid(blocks) && blocks.start >= kSuperblockBlock.end() && raw(blocks.end()) <= limits::kVolumeBytes;
}

uint64_t checksum_of(const StoredSuperblock& stored) {
  return XXH3_64bits(&stored, offsetof(StoredSuperblock, checksum));
}

StoredSuperblock encode(const Superblock& superblock) {
  CHECK(superblock.checkpoint.runs.size() <= kCheckpointRuns);
  StoredSuperblock stored;
  stored.version = superblock.version;
  stored.runs = static_cast<uint32_t>(superblock.checkpoint.runs.size());
  stored.compat = superblock.features.compat;
  stored.ro_compat = superblock.features.ro_compat;
  stored.incompat = superblock.features.incompat;
  stored.generation = superblock.generation;
  stored.created = static_cast<int64_t>(superblock.created);
  stored.next_ino = raw(superblock.next_ino);
  stored.replay_from = raw(superblock.replay_from);
  stored.replay_through = raw(superblock.replay_through);
  stored.journal_block = raw(superblock.journal_block);
  stored.checkpoint_id = superblock.checkpoint.id;
  stored.checkpoint_chunks = superblock.checkpoint.chunks;
  stored.checkpoint_rows = superblock.checkpoint.rows;
  stored.checkpoint_row_bytes = superblock.checkpoint.row_bytes;
  stored.checkpoint_checksum = superblock.checkpoint.checksum;
  std::copy(superblock.uuid.begin(), superblock.uuid.end(), stored.uuid);
  superblock.label.copy(stored.label, kLabelBytes - 1);
  std::transform(superblock.checkpoint.runs.begin(), superblock.checkpoint.runs.end(), stored.checkpoint_runs,
                 [](const BlockRange& run) {
                   return StoredRun{raw(run.start), run.count};
                 });
  stored.checksum = checksum_of(stored);
  return stored;
}

// docs/format.md, section "Superblock". What a checkpoint's numbers have to do with each other is its reader's to
// check.
bool is_within_bounds(const StoredSuperblock& stored) {
  const bool numbers = stored.generation >= 1 && stored.generation <= limits::kGeneration &&
                       stored.checkpoint_id <= limits::kGeneration && stored.replay_from >= 1 &&
                       stored.replay_from <= limits::kLsn && stored.replay_through <= limits::kLsn &&
                       stored.next_ino > raw(kRootIno) && stored.next_ino <= limits::kInodeNumber + 1;
  return numbers && stored.runs <= kCheckpointRuns && is_usable({BlockAddress{stored.journal_block}, 1}) &&
         stored.checkpoint_chunks <= limits::kVolumeBytes / kChunkBytes;
}

// Each usable, none twice.
bool are_distinct(std::vector<BlockRange> runs) {
  std::ranges::sort(runs, {}, &BlockRange::start);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!is_usable(runs[i]) || (i > 0 && runs[i - 1].end() > runs[i].start)) return false;
  }
  return true;
}

// Nothing if a field is beyond what encode() writes.
std::optional<Superblock> decode(const StoredSuperblock& stored) {
  Superblock superblock;
  superblock.version = stored.version;
  superblock.features = {stored.compat, stored.ro_compat, stored.incompat};
  std::copy(std::begin(stored.uuid), std::end(stored.uuid), superblock.uuid.begin());
  superblock.generation = stored.generation;
  superblock.created = TimeNs{stored.created};
  superblock.label = std::string(stored.label, strnlen(stored.label, kLabelBytes - 1));
  superblock.next_ino = Ino{stored.next_ino};
  superblock.replay_from = Lsn{stored.replay_from};
  superblock.replay_through = Lsn{stored.replay_through};
  superblock.journal_block = BlockAddress{stored.journal_block};
  superblock.checkpoint.id = stored.checkpoint_id;
  superblock.checkpoint.chunks = stored.checkpoint_chunks;
  superblock.checkpoint.rows = stored.checkpoint_rows;
  superblock.checkpoint.row_bytes = stored.checkpoint_row_bytes;
  superblock.checkpoint.checksum = stored.checkpoint_checksum;
  for (uint32_t i = 0; i < std::min<uint32_t>(stored.runs, kCheckpointRuns); ++i) {
    superblock.checkpoint.runs.push_back(
        {BlockAddress{stored.checkpoint_runs[i].start}, stored.checkpoint_runs[i].count});
  }
  return is_within_bounds(stored) && are_distinct(superblock.checkpoint.runs) ? std::optional(superblock)
                                                                              : std::nullopt;
}

enum class Slot { kZero, kForeign, kDamaged, kVerified };

Slot judge(const StoredSuperblock& stored) {
  const auto bytes = bytes_of(stored);
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; })) return Slot::kZero;
  if (stored.magic != kSuperblockMagic) return Slot::kForeign;
  return checksum_of(stored) == stored.checksum ? Slot::kVerified : Slot::kDamaged;
}

// What a verified slot tells, to a program that knows version 1.
SuperblockRead interpret(const StoredSuperblock& stored) {
  SuperblockRead read;
  if (stored.version > kFormatVersion || (stored.incompat & ~(kStriped | kHasMembers)) != 0) {
    read.kind = SuperblockRead::Kind::kNewer;
    read.why = fmt::format(
        "the volume has format version {} (features {:#x}); this program knows version {}: use a newer brickfs",
        stored.version, stored.incompat, kFormatVersion);
    return read;
  }
  const auto superblock = decode(stored);
  if (!superblock) {
    read.kind = SuperblockRead::Kind::kDamaged;
    read.why = "the superblock verifies but makes no sense: it was not written by a sound brickfs";
    return read;
  }
  read.kind = SuperblockRead::Kind::kValid;
  read.superblock = *superblock;
  read.read_only = stored.ro_compat != 0;
  return read;
}

SuperblockRead nothing_verified(const std::array<Slot, 2>& slots) {
  SuperblockRead read;
  if (slots[0] == Slot::kZero && slots[1] == Slot::kZero) {
    read.kind = SuperblockRead::Kind::kEmpty;
    read.why = "the volume has blocks but no superblock";
  } else if (slots[0] == Slot::kDamaged || slots[1] == Slot::kDamaged) {
    read.kind = SuperblockRead::Kind::kDamaged;
    read.why = "the volume holds a brickfs, but both copies of its superblock are damaged";
  } else {
    read.kind = SuperblockRead::Kind::kForeign;
    read.why = "the volume holds something that is not a brickfs";
  }
  return read;
}

LocalSlice slice_of(StoredSuperblock& stored) { return {reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}; }

}  // namespace

uint64_t CheckpointPlace::blocks() const {
  uint64_t total = 0;
  for (const BlockRange& run : runs) total += run.count;
  return total;
}

uint64_t Superblock::seed() const { return XXH3_64bits(uuid.data(), uuid.size()); }

std::string Superblock::uuid_text() const {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned>(uuid[i]));
  }
  return text;
}

Superblock new_superblock(std::string label) {
  Superblock superblock;
  fill_random(superblock.uuid);
  superblock.uuid[6] = (superblock.uuid[6] & std::byte{0x0f}) | std::byte{0x40};  // RFC 9562, version 4: random
  superblock.uuid[8] = (superblock.uuid[8] & std::byte{0x3f}) | std::byte{0x80};
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  superblock.created = TimeNs{time.tv_sec * 1'000'000'000 + time.tv_nsec};
  superblock.label = std::move(label);
  superblock.label.resize(cut_text(superblock.label, kLabelBytes - 1).size());
  superblock.next_ino = Ino{raw(kRootIno) + 1};
  return superblock;
}

Result<SuperblockRead> SuperblockSlots::read() {
  std::array<StoredSuperblock, 2> stored;
  const std::array<Piece, 2> pieces = {Piece{kSuperblockSlots[0], {slice_of(stored[0])}},
                                       Piece{kSuperblockSlots[1], {slice_of(stored[1])}}};
  TRY(volume_.read(pieces));
  const std::array<Slot, 2> slots = {judge(stored[0]), judge(stored[1])};
  std::optional<size_t> newest;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != Slot::kVerified) continue;
    if (!newest || stored[i].generation > stored[*newest].generation) newest = i;
  }
  if (!newest) return nothing_verified(slots);
  good_slot_ = *newest;
  generation_ = stored[*newest].generation;
  SuperblockRead read = interpret(stored[*newest]);
  read.copy_damaged = slots[1 - *newest] != Slot::kVerified;
  read.copy_differs = read.copy_damaged || stored[0].generation != stored[1].generation;
  return read;
}

Status SuperblockSlots::write(Superblock& superblock) {
  if (generation_ >= limits::kGeneration) return Error(ENOSPC, "the volume has no more generations of superblocks");
  superblock.generation = ++generation_;
  const size_t first = 1 - good_slot_;
  TRY(write_slot(first, superblock));
  good_slot_ = first;
  return write_slot(1 - first, superblock);
}

Status SuperblockSlots::restore_copy(const SuperblockRead& found) {
  return found.copy_differs ? write_slot(1 - good_slot_, found.superblock) : Status();
}

Status SuperblockSlots::write_slot(size_t slot, const Superblock& superblock) {
  StoredSuperblock stored = encode(superblock);
  const Piece piece{kSuperblockSlots[slot], {slice_of(stored)}};
  TRY(volume_.write({&piece, 1}, Stage::kSuperblock));
  return volume_.commit();
}

}  // namespace brickfs
