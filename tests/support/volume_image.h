// SPDX-License-Identifier: Apache-2.0
// The bytes of a volume, to be changed and written to another brick. Zero pages are not kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fs/persistence/checkpoint_format.h"
#include "fs/persistence/journal_format.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// One number that a volume stores.
struct StoredField {
  uint64_t address = 0;  // volume address
  size_t bytes = 8;
  const char* name = "";
};

class VolumeImage {
 public:
  // All that is on the volume. Fails the test if it cannot be read.
  static VolumeImage of(VolumeSet& volume);
  // Onto a volume that has no blocks.
  Status write_to(VolumeSet& volume) const;

  // Every number of the superblock, the first block of the checkpoint and of the journal, and of every row in them. The
  // image must have both.
  std::vector<StoredField> fields() const;
  uint64_t get(const StoredField& field) const;
  // With all checksums over it made right again.
  void set(const StoredField& field, uint64_t value);

 private:
  using Page = std::array<std::byte, 4096>;

  void load(uint64_t address, std::span<std::byte> into) const;
  void store(uint64_t address, std::span<const std::byte> from);
  uint64_t number_at(uint64_t address) const;
  uint64_t seed() const;
  uint64_t checkpoint_at() const;
  uint64_t journal_at() const;
  std::vector<std::byte> chunk() const;
  void add_rows(std::vector<StoredField>& fields, uint64_t address, std::span<const std::byte> rows) const;
  // Each batch of the journal's first block.
  template <typename Visit>
  void for_each_batch(Visit&& visit) const;
  void seal_superblock();

  std::vector<BlockRange> blocks_;
  std::map<uint64_t, Page> pages_;  // by address
};

}  // namespace brickfs
