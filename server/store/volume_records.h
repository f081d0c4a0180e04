// SPDX-License-Identifier: Apache-2.0
// Where the records of volumes are kept, so that a brick that starts again knows them: in the store of a durable brick,
// or in memory that outlives brickd. A volatile brick that keeps nothing has none.
#pragma once

#include "server/store/store_format.h"
#include "transport/base/result.h"

namespace brickfs {

class VolumeRecords {
 public:
  virtual Status write_volume(uint32_t id, StoreVolume record) = 0;
  // There is none any more. Precondition: no block of that volume is there, as lastingly as will be.
  virtual Status erase_volume(uint32_t id) = 0;
  // All that was written is as lasting as it will be.
  virtual Status sync() = 0;

 protected:
  ~VolumeRecords() = default;
};

}  // namespace brickfs
