// SPDX-License-Identifier: Apache-2.0
// A store's device that writes down what happened to it, so that every state in which a power loss can leave its disk
// can be made: what was synced, and of the rest any sectors of 512 bytes, in any order. Its syncs can fail as Linux's
// do: the error is told once, some of the bytes are lost, and reads go on showing them. Its writes can fail. It can be
// full.
//
// Threads: one at a time (brickfs-crash: simulated ones, which overlap in `interleave`).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "server/store/store_device.h"

namespace brickfs {

constexpr uint64_t kDiskSectorBytes = 512;
using DiskSector = std::array<std::byte, kDiskSectorBytes>;
using DiskSectorRef = std::shared_ptr<const DiskSector>;  // null: zeros

// What is on a disk, or seems to be.
struct DiskImage {
  absl::btree_map<uint64_t, DiskSectorRef> sectors;  // by number, those that are not zeros
  uint64_t size_bytes = 0;

  void put(uint64_t sector, const DiskSectorRef& bytes);
  DiskSectorRef at(uint64_t sector) const;
  void read(uint64_t offset, std::span<std::byte> into) const;
  uint64_t hash() const;
};

// One thing that waits to be written: a sector, or a new size.
struct DiskPiece {
  uint64_t sector = 0;
  DiskSectorRef bytes;
  uint64_t size_bytes = 0;  // not 0: it is this
  size_t event = 0;         // of which it is a part
};

struct DiskEvent {
  enum class Kind : uint8_t { kWrite, kSyncBegan, kSyncEnded, kSyncFailed };
  Kind kind = Kind::kWrite;
  std::vector<DiskPiece> pieces;  // of a write, a punch or a growth
  size_t began = 0;               // of an ended sync: the event with which it began
};

// A disk and what waits to be written to it, event by event.
class DiskHistory {
 public:
  explicit DiskHistory(DiskImage image) : durable_(std::move(image)) {}
  // Events are numbered from 0 on.
  void apply(const DiskEvent& event, size_t number);
  const DiskImage& durable() const { return durable_; }
  const std::vector<DiskPiece>& pending() const { return pending_; }
  // What a power loss leaves if those pieces get to the disk of which `keeps` says so, each with its place in
  // pending().
  DiskImage after(const std::function<bool(const DiskPiece&, size_t)>& keeps) const;
  // Lost to a failed sync, and not written again.
  const absl::btree_set<uint64_t>& lost() const { return lost_; }

 private:
  static void keep(DiskImage& image, const DiskPiece& piece);

  DiskImage durable_;
  std::vector<DiskPiece> pending_;
  absl::btree_set<uint64_t> lost_;
};

class CrashDisk {
 public:
  explicit CrashDisk(DiskImage image) : first_(image), cache_(image), history_(std::move(image)) {}

  // --- the machine's end of it
  std::function<void()> interleave = [] {};  // called in the midst of each call
  bool recording = true;
  uint64_t fails_sync = UINT64_MAX;  // the so manieth sync, from 0 on
  uint64_t fails_writes = 0;         // the next ones, so many: none of their bytes is written
  uint64_t room_bytes = UINT64_MAX;  // for all that is written or reserved
  // From now on no call reaches it: the process that uses it has died.
  void cut() { dead_ = true; }
  // Another process may use it; what is cached stays.
  void revive() { dead_ = false; }

  size_t events() const { return events_.size(); }
  const std::vector<DiskEvent>& log() const { return events_; }
  const DiskImage& first_image() const { return first_; }
  const DiskImage& seen() const { return cache_; }
  uint64_t syncs() const { return syncs_; }

 private:
  friend class CrashDevice;
  void add(DiskEvent event);
  Status write(uint64_t offset, std::span<const std::byte> from);
  Status punch(uint64_t offset, uint64_t length_bytes);
  Status take_room(uint64_t offset, uint64_t length_bytes);
  Status grow(uint64_t size_bytes);
  Status sync();
  void forget_cache();
  uint64_t room_left() const;

  const DiskImage first_;
  DiskImage cache_;
  DiskHistory history_;
  std::vector<DiskEvent> events_;
  std::set<uint64_t> pages_;  // that have room, while there is a limit
  uint64_t syncs_ = 0;
  bool dead_ = false;
};

// A store's end of a disk, which outlives it.
class CrashDevice final : public StoreDevice {
 public:
  explicit CrashDevice(CrashDisk& disk) : disk_(disk) {}
  Result<uint64_t> size_bytes() const override { return disk_.cache_.size_bytes; }
  Status read(uint64_t offset, std::span<std::byte> into) const override;
  Status write(uint64_t offset, std::span<const std::byte> from) override { return disk_.write(offset, from); }
  Status reserve(uint64_t offset, uint64_t length_bytes) override { return disk_.take_room(offset, length_bytes); }
  Status punch(uint64_t offset, uint64_t length_bytes) override { return disk_.punch(offset, length_bytes); }
  Status grow(uint64_t size_bytes) override { return disk_.grow(size_bytes); }
  Status sync() override { return disk_.sync(); }
  void forget_cache() override { disk_.forget_cache(); }
  uint64_t room_bytes() const override { return disk_.room_left(); }

 private:
  CrashDisk& disk_;
};

}  // namespace brickfs
