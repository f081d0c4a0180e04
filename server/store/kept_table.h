// SPDX-License-Identifier: Apache-2.0
// What memory that outlives brickd says of itself: whose block is in which frame, and the volumes' records
// (docs/format.md, "Kept memory"). It is as it should be after each store of the process: whoever finds it can tell
// whether it is all there, also when brickd was killed, and what a change that was cut off had done is undone (of
// blocks being made) or finished (of blocks being freed).
//
// Threads: any; one change at a time.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/store/kept_format.h"
#include "server/store/volume_records.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/block.h"

namespace brickfs {

class KeptTable final : public VolumeRecords {
 public:
  // The file that it is in: a copy of it elsewhere says what was true once.
  struct Place {
    uint64_t device = 0;
    uint64_t inode = 0;
  };
  struct Entry {
    uint32_t volume = 0;
    BlockAddress address{};
    uint32_t frame = 0;
    bool blank = false;  // the block is zeros, whatever is in its frame
  };
  struct Contents {
    std::vector<StoreVolume> volumes;  // kStoreVolumes of them, by id, used or not
    std::vector<StoredKey> keys;       // of volumes in use
    std::vector<Entry> entries;        // ascending by frame
    bool sealed = false;               // it was left in order
  };

  // `memory`: all in front of the frames; stays in place as long as this lives. A table without blocks.
  static std::unique_ptr<KeptTable> make(std::span<std::byte> memory, uint32_t frames, Place place);
  // How many frames the header speaks of, before anything else is believed. EUCLEAN: not a brick's memory. ENOTSUP: of
  // another format. EXDEV: a copy. ENODATA: damaged. `why`: what is wrong, behind "it".
  static Result<uint32_t> look(std::span<const std::byte> header, Place place, std::string* why);
  // Reads what `look` was satisfied with, and writes nothing unless all of it proves itself. ENODATA: it does not.
  static Result<std::unique_ptr<KeptTable>> open(std::span<std::byte> memory, uint32_t frames, Contents* contents,
                                                 std::string* why);
  KeptTable(const KeptTable&) = delete;
  KeptTable& operator=(const KeptTable&) = delete;

  uint64_t boot() const { return header().boot; }

  // The blocks are in these frames, all of them or, if the process is killed, none. They are blank: zeros, whatever is
  // in the frames.
  void add(uint32_t volume, BlockRange blocks, std::span<const uint32_t> frames) ABSL_LOCKS_EXCLUDED(mutex_);
  // They are in them no more, none of them, and were in all of them. The frames are still theirs until this returns.
  void remove(uint32_t volume, BlockRange blocks, std::span<const uint32_t> frames) ABSL_LOCKS_EXCLUDED(mutex_);
  // The frame, of a block that is blank, has been cleared: from now on what is in it is the block. Precondition: it is
  // nobody else's business.
  void fill(uint32_t frame);
  Status write_volume(uint32_t id, StoreVolume record) override ABSL_LOCKS_EXCLUDED(mutex_);
  Status erase_volume(uint32_t id) override ABSL_LOCKS_EXCLUDED(mutex_);
  Status prepare_keys() override {
    return has_keys() ? Status() : Error(ENOTSUP, "this memory was made without room for keys");
  }
  Status write_key(uint32_t place, uint32_t volume, const VolumeKey& key) override ABSL_LOCKS_EXCLUDED(mutex_);
  Status erase_key(uint32_t place) override ABSL_LOCKS_EXCLUDED(mutex_);
  Status sync() override { return {}; }
  // Nothing is changed any more. Precondition of all that changes something: it is not sealed.
  void seal() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Change;
  class Reader;

  KeptTable(std::span<std::byte> memory, uint32_t frames) : memory_(memory), frames_(frames) {}
  bool has_keys() const { return (header().incompat_features & kKeptKeyed) != 0; }
  uint64_t key_at(uint32_t place) const { return kept_keys_at(frames_) + place * sizeof(StoreKey); }
  uint64_t key_seed(uint32_t place) const { return header().uuid[0] + kStoreVolumes + 1 + place; }
  const KeptHeader& header() const { return *reinterpret_cast<const KeptHeader*>(memory_.data()); }
  template <typename Record>
  void write(uint64_t at, Record record, uint64_t seed);
  void write_summary(const Change& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void write_entry(uint32_t frame, uint32_t volume, BlockAddress address);
  void clear_entry(uint32_t frame);
  void clear_volume(uint64_t place);
  void clear_key(uint32_t place);
  uint64_t entry_checksum(uint32_t frame) const;
  void undo(const std::vector<uint32_t>& frames) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::span<std::byte> memory_;
  const uint32_t frames_;

  Mutex mutex_;
  KeptState state_ ABSL_GUARDED_BY(mutex_) = KeptState::kServing;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t sum_ ABSL_GUARDED_BY(mutex_) = 0;
  struct VolumeNow {
    uint64_t generation = 0;
    uint64_t checksum = 0;
  };
  std::vector<VolumeNow> volumes_ ABSL_GUARDED_BY(mutex_) = std::vector<VolumeNow>(kStoreVolumes);
  std::vector<uint64_t> keys_ ABSL_GUARDED_BY(mutex_) = std::vector<uint64_t>(kStoreKeys);  // their checksums
};

}  // namespace brickfs
