// SPDX-License-Identifier: Apache-2.0
// Clients at work on a real brick, several at a time: alloc, map, write, commit, unmap, free, one who takes a volume
// over, and an administrator who makes, resizes and removes one. Every call, and what it answered, is written down in a
// StoreHistory. What a client reads is compared with what was written last.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "tests/support/crash_device.h"
#include "tests/support/crash_store_history.h"

namespace brickfs {

constexpr uint64_t kStoreSlots = 6;         // fewer than blocks that clients want
constexpr uint64_t kStoreSlotsGrown = 9;    // that the store may be changed to
constexpr uint64_t kStoreMemoryBlocks = 3;  // so blocks are evicted

extern const std::array<const char*, kStoreVolumesUsed> kStoreVolumeNames;

// Of the store on `disk`, made with so many slots, or changed to them; 0: as it is. Null: `why`.
std::unique_ptr<BrickService> open_store_service(CrashDisk& disk, uint64_t memory_blocks, uint64_t slots,
                                                 std::string* why);

// What a volume holds, as a reader sees it, and the epoch of the lease before his. Empty, or what went wrong.
std::string read_volume(BrickService& service, size_t volume, FoundBlocks& found, uint64_t& epoch);

// What an administrator sees of the volume that comes and goes. Empty, or what went wrong: also blocks that are of no
// volume.
std::string read_spare(BrickService& service, SpareVolume& found);

class StoreWorkload {
 public:
  StoreWorkload(BrickService& service, CrashDisk& disk, StoreHistory& history, uint64_t seed, uint64_t& last_stamp);
  ~StoreWorkload();
  // Empty, or what a client met that must not be.
  std::string run();
  // Ends the sessions: by close(), or as the death of a process does.
  void end(bool close);

 private:
  class Client;
  class Actor;
  void run_actors(size_t volume, size_t client, size_t actors);
  std::string take_over();
  void administer(uint64_t seed);
  bool administer_once(std::mt19937_64& random);
  bool fill_spare();
  int refusal_of_removal();
  bool ask(const AdminRequest& request, const SpareVolume& makes, int refusal);
  void fail(std::string why);
  size_t now() { return history_.moment(disk_.events()); }

  BrickService& service_;
  CrashDisk& disk_;
  StoreHistory& history_;
  std::mt19937_64 random_;
  uint64_t& last_stamp_;
  std::vector<std::unique_ptr<Client>> clients_;
  SessionPtr of_spare_;
  std::string failure_;
};

}  // namespace brickfs
