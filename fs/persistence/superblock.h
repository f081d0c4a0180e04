// SPDX-License-Identifier: Apache-2.0
// The superblock: where a volume's file system begins. Two slots in the block at volume address 0, each a whole copy; a
// write makes one durable before it touches the other, so one of them is good at every instant. Format: docs/format.md,
// section "Superblock".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kSuperblockMagic = 0x3153'464b'4349'5242;                // "BRICKFS1"
constexpr std::array<uint64_t, 2> kSuperblockSlots = {0, kBlockBytes / 2};  // addresses
constexpr BlockRange kSuperblockBlock{BlockAddress{0}, 1};
constexpr size_t kCheckpointRuns = 128;  // runs of blocks that a superblock can name

// Features by how a program that does not know one must treat the volume: as if it were not there, as read-only, not at
// all.
struct Features {
  uint64_t compat = 0;
  uint64_t ro_compat = 0;
  uint64_t incompat = 0;
};
// incompat: blocks may be on other bricks of a set (docs/sets.md).
constexpr uint64_t kStriped = 1;
// incompat: rows may be of members of a shared volume (docs/shared.md).
constexpr uint64_t kHasMembers = 2;

// Where a checkpoint is. No chunks and no blocks: there is none, the tree begins empty.
struct CheckpointPlace {
  std::vector<BlockRange> runs;  // in order, at most kCheckpointRuns
  uint64_t id = 0;               // in each chunk of it
  uint64_t chunks = 0;
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
  uint64_t checksum = 0;  // over the checksums of its chunks

  uint64_t blocks() const;
};

struct Superblock {
  uint32_t version = kFormatVersion;
  Features features;
  std::array<std::byte, 16> uuid{};
  uint64_t generation = 0;  // set by SuperblockSlots::write
  TimeNs created{};
  std::string label;  // for people, at most 63 bytes
  Ino next_ino{};     // every number below may have been given
  CheckpointPlace checkpoint;
  Lsn replay_from{1};    // of the first transaction to replay onto the checkpoint
  Lsn replay_through{};  // at least as far: the checkpoint's scan saw the tree up to it, and all of it was durable
  BlockAddress journal_block{};  // that begins with it; allocated, perhaps not written yet

  uint64_t seed() const;  // of every checksum in the volume
  std::string uuid_text() const;
};

// With a random uuid, made now; journal_block and the checkpoint are the caller's to fill in.
Superblock new_superblock(std::string label);

struct SuperblockRead {
  enum class Kind {
    kValid,
    kEmpty,    // nothing was ever written there
    kForeign,  // something, but no brickfs
    kDamaged,  // a brickfs, but neither copy verifies
    kNewer,    // a valid one that this program does not understand
  };
  Kind kind = Kind::kEmpty;
  Superblock superblock;      // if kValid
  bool read_only = false;     // kValid with a feature that allows only reading
  bool copy_damaged = false;  // kValid, but the other copy does not verify: a torn write, or damage
  bool copy_differs = false;  // kValid, and the other copy is damaged, or an older one
  std::string why;            // one line for people, unless kValid
};

// Threads: one at a time.
class SuperblockSlots {
 public:
  // `volume` must outlive it.
  explicit SuperblockSlots(VolumeSet& volume) : volume_(volume) {}

  // The newest copy that verifies. The superblock block must be allocated. Errors: the volume's.
  Result<SuperblockRead> read();
  // Gives it the next generation, then writes and commits one copy after the other; everything the superblock refers to
  // must have been written before. On an error either this superblock or the former one is found by read(): what both
  // refer to must stay. ENOSPC: generations are used up.
  Status write(Superblock& superblock);
  // Makes the other copy what read() has found, and commits it. Before anything is freed: a torn write has left in it
  // most of a superblock that names blocks of its own, and another one that is torn there could make it whole.
  Status restore_copy(const SuperblockRead& found);

 private:
  Status write_slot(size_t slot, const Superblock& superblock);

  VolumeSet& volume_;
  size_t good_slot_ = 1;     // not to be touched before the other one is durable
  uint64_t generation_ = 0;  // highest ever seen or tried
};

}  // namespace brickfs
