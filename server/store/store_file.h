// SPDX-License-Identifier: Apache-2.0
// What is on the device behind a durable brick: volume records, block table, slots (docs/format.md, "Store"). Nothing
// is durable before sync(); the order of writes is the callers' business. Once a sync has failed everything else fails
// too, with EIO: nobody may be shown what the disk may not have.
//
// Threads: every call from any thread; two that touch the same record, entry or slot are kept apart by the callers.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/store/group_sync.h"
#include "server/store/store_device.h"
#include "server/store/store_format.h"
#include "server/store/volume_records.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/block.h"

namespace brickfs {

class StoreFile final : public VolumeRecords {
 public:
  // An allocated block as the table has it.
  struct Entry {
    uint32_t volume = 0;
    BlockAddress address{};
    uint32_t slot = 0;
  };
  struct Contents {
    std::vector<StoreVolume> volumes;  // kStoreVolumes of them, by id, used or not
    std::vector<StoredKey> keys;       // of volumes in use
    std::vector<Entry> entries;        // of volumes in use, one for each block
    std::vector<uint32_t> set_aside;   // slots whose entries are damaged: nobody's, and not to be used
  };
  // What becomes of entries that are damaged in both copies.
  enum class Damage { kKeep, kGiveUp };

  // Opens the store at `path`, or makes one of `bytes` (rounded down to blocks) if there is nothing there but perhaps
  // an empty file; an existing one is given that size, if it can be. 0: that of the existing one. Errors, with one line
  // for people in `why`: EBUSY (another process has it), EUCLEAN (not a store, or one without a header), ENOTSUP (newer
  // format, or a file system without holes), EINVAL (size), others as the system gave them.
  static Result<std::unique_ptr<StoreFile>> open(const std::string& path, uint64_t bytes, std::string* why,
                                                 Damage damage = Damage::kKeep);
  // The same on a device, which people know as `name`.
  static Result<std::unique_ptr<StoreFile>> open(std::unique_ptr<StoreDevice> device, std::string name, uint64_t bytes,
                                                 std::string* why, Damage damage = Damage::kKeep);

  uint32_t slots() const { return slots_; }
  const std::string& path() const { return path_; }
  // What was found at open; empty from the second call on.
  Contents take_contents() { return std::move(contents_); }

  Status write_volume(uint32_t id, StoreVolume record) override;
  Status erase_volume(uint32_t id) override;
  Status prepare_keys() override;
  Status write_key(uint32_t place, uint32_t volume, const VolumeKey& key) override;
  Status erase_key(uint32_t place) override;
  Status write_entry(const Entry& entry);
  Status clear_entry(uint32_t slot);

  Status read(uint32_t slot, uint64_t offset, std::span<std::byte> into) const;
  // The bytes may be changing meanwhile: any mixture is then stored.
  Status write(uint32_t slot, uint64_t offset, std::span<const std::byte> from);
  // Writes what of the block is not in the slot yet.
  Status write_differences(uint32_t slot, std::span<const std::byte> block);
  // Slots can be written from now on however full the disk gets. ENOSPC.
  Status reserve(uint32_t first_slot, uint32_t count = 1);
  // Makes slots zeros without using space.
  Status punch(uint32_t first_slot, uint32_t count = 1);

  // The shadow of a slot: a place for what is newer of a block than its slot, for who has this store open.
  struct Shadow {
    uint32_t slot = 0;
    std::bitset<kShadowPages> pages;  // that are there
  };
  // Of the pages of the block that differ from the slot. ENOSPC.
  Result<Shadow> write_shadow(uint32_t slot, std::span<const std::byte> block);
  // A whole block: the slot, and what is newer in the shadow.
  Status read(const Shadow& shadow, std::span<std::byte> into) const;
  void drop_shadow(uint32_t slot);
  // What is newer there becomes what is in the slots when the store is opened again: of all these, or (an error) of
  // none. Durable when it returns. Nothing else is written to this store any more.
  Status leave_shadows(std::span<const Shadow> shadows);

  // All writes that have returned are durable. EIO, for good.
  Status sync() override;
  // All entries whose writing or clearing has returned.
  bool table_is_durable() const { return sync_.table_is_durable(); }
  bool failed() const { return sync_.failed(); }
  uint64_t errors() const { return errors_.load(std::memory_order_relaxed); }  // of the device, so far
  uint64_t room_bytes() const { return device_->room_bytes(); }                // on its disk, besides what is reserved

 private:
  using OnPages = std::function<Status(uint64_t offset, uint64_t length_bytes)>;  // neighbouring ones, in a block

  StoreFile(std::string path, std::unique_ptr<StoreDevice> device)
      : path_(std::move(path)), device_(std::move(device)), sync_(*device_) {}
  Status load(uint64_t bytes, Damage damage, std::string* why);
  Status create(uint64_t bytes, std::string* why);
  Status resize(uint64_t slots, std::string* why);
  Status prepare_slots(uint64_t from, uint64_t to);
  Status write_header(const StoreHeader& header);
  bool making_was_torn(uint64_t file_bytes) const;
  Status load_header(uint64_t file_bytes, std::string* why);
  Result<StoreHeader> whole_header(uint64_t file_bytes, bool* is_cut, std::string* why) const;
  Status check_geometry(const StoreHeader& header, std::string* why) const;
  Status load_table(Damage damage, std::string* why);
  Status adopt_entries(std::vector<StoreEntry>& table);
  // The two copies (store_copies.cc).
  bool is_whole(const StoreVolume& record, uint32_t id) const;
  bool is_whole(const StoreEntry& entry, uint32_t slot) const;
  void read_what_there_is(uint64_t offset, std::span<std::byte> into) const;
  template <typename Record>
  Status load_records(uint64_t at, const char* kind, std::vector<Record>& records, std::vector<uint32_t>& lost);
  // Keys of volumes (store_keys.cc).
  Status load_keys();
  bool is_whole(const StoreKey& key, uint32_t place) const;
  uint64_t keys_at() const { return copy_at_ - kStoreKeysBytes; }
  Status set_aside(std::span<const uint32_t> lost, Damage damage);
  Status save_volumes(std::span<const uint32_t> lost);
  std::optional<StoreHeader> find_header_copy(uint64_t file_bytes) const;
  bool has_record_of(const StoreHeader& header) const;
  Status make_copy(std::string* why);
  Status write_both(uint64_t offset, std::span<const std::byte> from);
  Status drop_older_duplicates(std::vector<StoreEntry>& table);
  Status for_each_difference(uint32_t slot, std::span<const std::byte> block, const OnPages& found) const;
  Status read_pages(const Shadow& shadow, std::span<std::byte> into, const OnPages& got) const;
  Result<std::vector<Shadow>> listed_shadows() const;
  Status settle_shadows();
  Status say_shadows_are_left(bool they_are);
  Status clear_unused_slots(std::string* why);
  Status take_shadows(std::string* why);
  void reserve_what_is_used();
  Status check_works() const;
  Status counted(Status done) const;
  Status write_at(uint64_t offset, std::span<const std::byte> from);
  Status read_at(uint64_t offset, std::span<std::byte> into) const;
  uint64_t slot_at(uint32_t slot) const { return slots_at_ + slot * kBlockBytes; }
  uint64_t list_at() const { return slots_at_ + slots_ * kBlockBytes; }
  uint64_t shadow_at(uint32_t slot) const { return slots_at_ + shadows_begin(slots_) + slot * kBlockBytes; }

  // Fixed after open().
  const std::string path_;
  const std::unique_ptr<StoreDevice> device_;
  uint32_t slots_ = 0;
  uint64_t slots_at_ = 0;
  uint64_t copy_at_ = 0;               // of header, records and table; 0: there is none
  bool has_list_ = false;              // of shadows that were left
  std::atomic<bool> has_keys_{false};  // and room for them; set under keys_mutex_
  std::array<uint64_t, 2> uuid_{};
  Contents contents_;

  Mutex keys_mutex_;  // of who makes room for keys
  std::atomic<uint64_t> serial_{0};
  GroupSync sync_;
  std::atomic<bool> failure_logged_{false};
  mutable std::atomic<uint64_t> errors_{0};
};

}  // namespace brickfs
