// SPDX-License-Identifier: Apache-2.0
// What the holder of a volume lends: blocks to which another client writes bytes on the bricks itself (a follower that
// writes, OpenRequest::writes). The holder adopts them: from then on they count as written by him
// (VolumeSet::adopt()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/volume/readable_brick.h"

namespace brickfs {

// Bytes that another one than the holder wrote to bricks, and keeps until this goes: until a commit has covered them
// wherever they were adopted. Threads: any. It goes in whatever thread ends a commit or frees blocks, with the volume
// under way: then, too, it neither waits nor calls the volume.
class LentBytes {
 public:
  virtual ~LentBytes() = default;
  // The bytes at [address, + into.size()) of the volume, which were adopted together or are part of that. Called while
  // a brick that has restarted is brought up to date, by the thread that does it: may block for some seconds, and does
  // not call the volume. An error: they are lost, and zeros are written for them.
  virtual Status fetch(uint64_t address, std::span<std::byte> into) = 0;
  virtual std::string owner() const = 0;  // for people: who keeps them
};

// Bytes of one place, in any number of blocks.
struct LentRange {
  uint64_t address = 0;
  uint64_t length_bytes = 0;
};

// What the bricks of a place were when they were written to: those that were told to who wrote (Place::readable()).
struct LentPlace {
  size_t place = 0;
  std::vector<ReadableBrick> bricks;
};

}  // namespace brickfs
