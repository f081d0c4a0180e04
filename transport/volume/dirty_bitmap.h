// SPDX-License-Identifier: Apache-2.0
// The dirty bitmap of a place: what replicas that are not in sync have missed, noted on those that are, and on those
// that are being brought up to date (transport/volume/replica_format.h): for the client that has the volume next. The
// one that left them out knows it more exactly.
//
// A byte for each block (a bit would have to be read first), which becomes 1 and stays so: who notes at the same time
// needs no order.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "transport/base/interruption.h"
#include "transport/base/result.h"
#include "transport/brick/block_set.h"
#include "transport/volume/piece.h"
#include "transport/volume/replica_format.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class DirtyBitmap {
 public:
  // Puts bytes on all replicas that are written. Errors as Mirror::write().
  using Write = std::function<Status(std::span<const Piece>, const Interruption* by)>;

  // Nothing is noted. `number`: by which the map names it, not 0.
  DirtyBitmap(const SetId& set, size_t place, uint64_t number);

  uint64_t number() const { return number_; }
  bool has(std::span<const BlockRange> blocks) const;  // all of them
  // Those that share their byte with one that is noted.
  BlockSet among(std::span<const BlockRange> blocks) const;

  // What one replica has, whose bitmap has this number (read_bitmap_number), is here, too.
  Status read(VolumeClient& replica);
  // Here alone: to be followed by write().
  void insert(std::span<const BlockRange> blocks);

  // Header and bytes, in the place of others.
  Status write(const Write& write, const Interruption* by) const;
  // What is not noted yet, there and then here.
  Status note(std::span<const BlockRange> blocks, const Write& write, const Interruption* by);

 private:
  uint64_t index_of(BlockAddress block) const { return (raw(block) - raw(first_block_)) / kBlockBytes % kBitmapBlocks; }
  uint64_t address_of(uint64_t index) const { return raw(first_block_) + kBitmapOffset + kBitmapHeaderBytes + index; }

  const SetId set_;
  const size_t place_;
  const BlockAddress first_block_;
  const uint64_t number_;
  std::vector<std::atomic<uint8_t>> bytes_;
};

}  // namespace brickfs
