// SPDX-License-Identifier: Apache-2.0
// Changing the table; kept_table_open.cc reads what another process left.
#include "server/store/kept_table.h"

#include <string.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "transport/base/check.h"
#include "transport/base/random.h"

namespace brickfs {

// What the next summary says is under way.
struct KeptTable::Change {
  KeptChange kind = KeptChange::kNone;
  uint32_t volume = 0;
  BlockRange blocks;
};

// A killed process has done all stores before some instruction, and none after: so it is enough that the compiler keeps
// them in this order.
template <typename Record>
void KeptTable::write(uint64_t at, Record record, uint64_t seed) {
  constexpr size_t kWords = sizeof(Record) / sizeof(uint64_t);
  record.checksum = kept_checksum(record, seed);
  if constexpr (std::is_same_v<Record, KeptEntry>) record.content = kept_content(record.checksum, true);
  auto words = std::bit_cast<std::array<uint64_t, kWords>>(record);
  uint64_t* const there = reinterpret_cast<uint64_t*>(memory_.data() + at);
  const auto store = [&](size_t word, uint64_t value) {
    std::atomic_ref(there[word]).store(value, std::memory_order_release);
  };
  store(kWords - 1, 0);
  for (size_t word = 0; word + 1 < kWords; ++word) store(word, words[word]);
  store(kWords - 1, words[kWords - 1]);
  if constexpr (!std::is_same_v<Record, StoreKey>) return;
  ::explicit_bzero(&record, sizeof(record));
  ::explicit_bzero(words.data(), sizeof(words));
}

std::unique_ptr<KeptTable> KeptTable::make(std::span<std::byte> memory, uint32_t frames, Place place) {
  CHECK(memory.size() == kept_frames_at(frames));
  std::unique_ptr<KeptTable> table(new KeptTable(memory, frames));
  uint64_t& checksum = *reinterpret_cast<uint64_t*>(memory.data() + offsetof(KeptHeader, checksum));
  std::atomic_ref(checksum).store(0, std::memory_order_release);  // what is said there holds no more
  std::memset(memory.data() + sizeof(KeptHeader), 0, memory.size() - sizeof(KeptHeader));
  KeptHeader header{};
  header.magic = kKeptMagic;
  header.version = kKeptVersion;
  header.block_bytes = kBlockBytes;
  header.uuid = {random_id<uint64_t>(), random_id<uint64_t>()};
  header.boot = random_id<uint64_t>();
  header.incompat_features = kept_keys_fit(frames) ? kKeptKeyed : 0;
  header.frames = frames;
  header.device = place.device;
  header.inode = place.inode;
  // The summary's seed is the header's: first the header, without the word that makes it one.
  std::memcpy(memory.data(), &header, offsetof(KeptHeader, checksum));
  {
    MutexLock lock(table->mutex_);
    table->settle();
  }
  table->write(0, header, 0);
  return table;
}

void KeptTable::write_summary(const Change& change) {
  ++generation_;
  const KeptSummary summary{.generation = generation_,
                            .state = state_,
                            .change = change.kind,
                            .sum = sum_,
                            .volume = change.volume,
                            .reserved = 0,
                            .start = raw(change.blocks.start),
                            .count = change.blocks.count,
                            .unused = 0,
                            .checksum = 0};
  write(kKeptSummariesAt + generation_ % 2 * sizeof(KeptSummary), summary, header().uuid[0]);
}

// Nothing is under way: both copies say so, so that the loss of one of them is none.
void KeptTable::settle() {
  write_summary({});
  write_summary({});
}

void KeptTable::write_entry(uint32_t frame, uint32_t volume, BlockAddress address) {
  const KeptEntry entry{.address = raw(address), .volume = volume, .reserved = 0, .content = 0, .checksum = 0};
  write(kKeptEntriesAt + frame * sizeof(KeptEntry), entry, header().uuid[1] + frame);
}

uint64_t KeptTable::entry_checksum(uint32_t frame) const {
  return load<KeptEntry>(memory_.subspan(kKeptEntriesAt + frame * sizeof(KeptEntry))).checksum;
}

void KeptTable::clear_entry(uint32_t frame) {
  std::byte* const entry = memory_.data() + kKeptEntriesAt + frame * sizeof(KeptEntry);
  uint64_t& checksum = *reinterpret_cast<uint64_t*>(entry + offsetof(KeptEntry, checksum));
  std::atomic_ref(checksum).store(0, std::memory_order_release);
}

void KeptTable::fill(uint32_t frame) {
  std::byte* const entry = memory_.data() + kKeptEntriesAt + frame * sizeof(KeptEntry);
  uint64_t& content = *reinterpret_cast<uint64_t*>(entry + offsetof(KeptEntry, content));
  std::atomic_ref(content).store(kept_content(entry_checksum(frame), false), std::memory_order_release);
}

void KeptTable::add(uint32_t volume, BlockRange blocks, std::span<const uint32_t> frames) {
  MutexLock lock(mutex_);
  CHECK(state_ == KeptState::kServing && frames.size() == blocks.count);
  write_summary({KeptChange::kBlocks, volume, blocks});
  for (uint64_t i = 0; i < blocks.count; ++i) {
    CHECK(frames[i] < frames_ && entry_checksum(frames[i]) == 0);
    write_entry(frames[i], volume, block_after(blocks.start, i));
    sum_ ^= entry_checksum(frames[i]);
  }
  settle();
}

void KeptTable::remove(uint32_t volume, BlockRange blocks, std::span<const uint32_t> frames) {
  MutexLock lock(mutex_);
  CHECK(state_ == KeptState::kServing && frames.size() == blocks.count);
  for (const uint32_t frame : frames) {
    CHECK(frame < frames_ && entry_checksum(frame) != 0);
    sum_ ^= entry_checksum(frame);
  }
  write_summary({KeptChange::kBlocks, volume, blocks});
  for (const uint32_t frame : frames) clear_entry(frame);
  settle();
}

Status KeptTable::write_volume(uint32_t id, StoreVolume record) {
  MutexLock lock(mutex_);
  CHECK(state_ == KeptState::kServing && id < kStoreVolumes);
  VolumeNow& now = volumes_[id];
  sum_ ^= now.checksum;
  write_summary({KeptChange::kVolume, id, {}});
  record.in_use = record.in_use == kVolumeGoing ? kVolumeGoing : kVolumeInUse;
  record.reserved = {};
  auto kept = std::bit_cast<KeptVolume>(record);
  kept.generation = ++now.generation;
  const uint64_t seed = header().uuid[0] + id + 1;
  write(kKeptVolumesAt + (2 * id + now.generation % 2) * sizeof(KeptVolume), kept, seed);
  now.checksum = kept_checksum(kept, seed);
  sum_ ^= now.checksum;
  settle();
  return {};
}

void KeptTable::clear_volume(uint64_t place) {
  std::byte* const record = memory_.data() + kKeptVolumesAt + place * sizeof(KeptVolume);
  uint64_t& checksum = *reinterpret_cast<uint64_t*>(record + offsetof(KeptVolume, checksum));
  std::atomic_ref(checksum).store(0, std::memory_order_release);
}

// The older of its copies first: alone it would say what has not been so for long.
Status KeptTable::erase_volume(uint32_t id) {
  MutexLock lock(mutex_);
  CHECK(state_ == KeptState::kServing && id < kStoreVolumes);
  VolumeNow& now = volumes_[id];
  sum_ ^= now.checksum;
  write_summary({KeptChange::kVolume, id, {}});
  clear_volume(2 * id + (now.generation + 1) % 2);
  clear_volume(2 * id + now.generation % 2);
  now.checksum = 0;
  settle();
  return {};
}

Status KeptTable::write_key(uint32_t place, uint32_t volume, const VolumeKey& key) {
  TRY(prepare_keys());
  MutexLock lock(mutex_);
  CHECK(state_ == KeptState::kServing && place < kStoreKeys && keys_[place] == 0);
  write_summary({KeptChange::kKey, place, {}});
  StoreKey record = store_key_of(volume, key);
  write(key_at(place), record, key_seed(place));
  keys_[place] = kept_checksum(record, key_seed(place));
  ::explicit_bzero(&record, sizeof(record));
  sum_ ^= keys_[place];
  settle();
  return {};
}

// The word that makes it one is gone first; then the key itself.
void KeptTable::clear_key(uint32_t place) {
  std::byte* const record = memory_.data() + key_at(place);
  uint64_t& checksum = *reinterpret_cast<uint64_t*>(record + offsetof(StoreKey, checksum));
  std::atomic_ref(checksum).store(0, std::memory_order_release);
  ::explicit_bzero(record, sizeof(StoreKey));
}

Status KeptTable::erase_key(uint32_t place) {
  MutexLock lock(mutex_);
  CHECK(state_ == KeptState::kServing && place < kStoreKeys);
  sum_ ^= keys_[place];
  write_summary({KeptChange::kKey, place, {}});
  clear_key(place);
  keys_[place] = 0;
  settle();
  return {};
}

void KeptTable::seal() {
  MutexLock lock(mutex_);
  if (state_ == KeptState::kSealed) return;
  state_ = KeptState::kSealed;
  settle();
}

void KeptTable::undo(const std::vector<uint32_t>& frames) {
  for (const uint32_t frame : frames) clear_entry(frame);
  state_ = KeptState::kServing;
  settle();
}

}  // namespace brickfs
