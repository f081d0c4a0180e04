// SPDX-License-Identifier: Apache-2.0
// Where the records of volumes and their keys are kept, so that a brick that starts again knows them: in the store of a
// durable brick, or in memory that outlives brickd. A volatile brick that keeps nothing has none.
#pragma once

#include "server/store/store_format.h"
#include "transport/base/result.h"
#include "transport/brick/volume_key.h"

namespace brickfs {

// A key as it was found.
struct StoredKey {
  uint32_t place = 0;
  uint32_t volume = 0;  // id
  VolumeKey key;
};

// Its record, but for the checksum, and back. What passes is to be overwritten by who has it.
StoreKey store_key_of(uint32_t volume, const VolumeKey& key);
VolumeKey key_in(const StoreKey& record);

class VolumeRecords {
 public:
  virtual Status write_volume(uint32_t id, StoreVolume record) = 0;
  // There is none any more. Precondition: no block of that volume is there, as lastingly as will be.
  virtual Status erase_volume(uint32_t id) = 0;
  // Keys of volumes can be written from now on. ENOTSUP: there is no room for any.
  virtual Status prepare_keys() = 0;
  // At a place below limits::kKeys.
  virtual Status write_key(uint32_t place, uint32_t volume, const VolumeKey& key) = 0;
  virtual Status erase_key(uint32_t place) = 0;
  // All that was written is as lasting as it will be.
  virtual Status sync() = 0;

 protected:
  ~VolumeRecords() = default;
};

}  // namespace brickfs
