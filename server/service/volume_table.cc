// SPDX-License-Identifier: Apache-2.0
// Which volumes there are; lease.cc says who gets them.
#include "server/service/volume_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/store_trouble.h"
#include "transport/brick/volume_name.h"

namespace brickfs {
namespace {

// What a medium is, and what ails it, without where it is.
std::string without_path(std::string medium) {
  const size_t path = medium.find(kStoreAt);
  if (path == std::string::npos) return medium;
  const size_t end = std::min(medium.find(kBeforeTrouble), medium.size());
  return medium.replace(path, end - path, " with a store");
}

}  // namespace

VolumeTable::VolumeTable(BlockStore& blocks, VolumeRecords* records, Session geometry, std::chrono::milliseconds grace,
                         std::function<std::string()> medium)
    : blocks_(blocks), records_(records), geometry_(geometry), grace_(grace), medium_(std::move(medium)) {}

VolumeTable::Volume& VolumeTable::add(VolumeId id, const StoreVolume& record) {
  Volume& volume = volumes_[id];
  volume.id = id;
  volume.record = record;
  blocks_.add_volume(id, record.quota_blocks);
  volume.going = record.in_use == kVolumeGoing;
  if (!volume.going) by_name_.try_emplace(record.name.data(), &volume);
  return volume;
}

// A volume that comes when others are there may be the second of its name. Who held the first must not take it for that
// one: it begins with an epoch that no lease of the first had.
uint64_t VolumeTable::fresh_epoch(const std::string& name) const {
  if (began_empty_) return 0;
  using std::chrono::microseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto gone = gone_.find(name);
  const uint64_t least = gone == gone_.end() ? 1 : gone->second + 1;
  const int64_t since_1970 = std::chrono::duration_cast<microseconds>(now).count();
  constexpr int64_t kMost = kStoreNumbers / 2;  // whatever the clock says, there are epochs left
  return std::max<uint64_t>(static_cast<uint64_t>(std::clamp<int64_t>(since_1970, 0, kMost)), least);
}

Result<VolumeTable::Volume*> VolumeTable::make(const std::string& name, uint64_t quota_blocks) {
  uint32_t id = 0;
  while (volumes_.contains(VolumeId{id})) ++id;
  if (id >= limits::kVolumes) return Error(ENOSPC, "the brick has as many volumes as it can have");
  StoreVolume record{};
  std::memcpy(record.name.data(), name.data(), name.size());
  record.quota_blocks = quota_blocks;
  record.in_use = kVolumeInUse;
  record.epoch = fresh_epoch(name);
  return &add(VolumeId{id}, record);
}

void VolumeTable::drop(Volume& volume) {
  const auto named = by_name_.find(volume.record.name.data());
  if (named != by_name_.end() && named->second == &volume) by_name_.erase(named);
  blocks_.remove_volume(volume.id);
  for (const Key& key : volume.keys) key_places_.erase(key.place);
  volumes_.erase(volume.id);
  changed_.notify_all();
}

void VolumeTable::load(std::span<const StoreVolume> records, std::vector<StoredKey> keys) {
  MutexLock lock(mutex_);
  for (uint32_t id = 0; id < records.size(); ++id) {
    if (records[id].in_use == 0) continue;
    began_empty_ = false;
    Volume& volume = add(VolumeId{id}, records[id]);
    if (records[id].holder_client != 0) volume.kept_until = std::chrono::steady_clock::now() + grace_;
  }
  for (StoredKey& stored : keys) {
    Volume& volume = volumes_.at(VolumeId{stored.volume});
    volume.record.keyed = 1;
    volume.keys.push_back({stored.place, std::move(stored.key)});
    key_places_.insert(stored.place);
  }
  const auto when = [](const Key& key) { return std::pair(key.key.added_unix_seconds, key.place); };
  for (auto& [id, volume] : volumes_) std::ranges::sort(volume.keys, {}, when);
}

Status VolumeTable::finish_removals(std::string* why) {
  MutexLock lock(mutex_);
  for (auto at = volumes_.begin(); at != volumes_.end();) {
    Volume& volume = at->second;
    ++at;
    if (!volume.going) continue;
    const std::string name = volume.record.name.data();
    const Status erased = erase(volume);
    if (!erased.ok()) {
      *why = fmt::format("volume '{}', which was removed: cannot be erased: {}", name, std::strerror(erased.code()));
      return erased;
    }
    log::info("volume {}, which was removed when the brick stopped, is gone", name);
  }
  return {};
}

Status VolumeTable::configure(std::span<const VolumeSpec> specs, std::string* why) {
  MutexLock lock(mutex_);
  TRY(configure_one({.name = "default", .quota_bytes = {}}, why));
  for (const VolumeSpec& spec : specs) TRY(configure_one(spec, why));
  began_empty_ = false;
  return {};
}

Status VolumeTable::configure_one(const VolumeSpec& spec, std::string* why) {
  const auto known = by_name_.find(spec.name);
  Volume* volume = known == by_name_.end() ? nullptr : known->second;
  const bool is_new = volume == nullptr;
  if (is_new) {
    if (!is_new_volume_name(spec.name)) {
      *why = fmt::format("volume '{}': {}", spec.name, kVolumeNameRule);
      return Error(EINVAL, "naming a volume");
    }
    const auto made = make(spec.name, kNoQuota);
    if (!made.ok()) {
      *why = fmt::format("volume '{}': a brick has at most {} volumes", spec.name, limits::kVolumes);
      return Error(EINVAL, "making a volume");
    }
    volume = *made;
  }
  volume->is_configured = true;
  volume->size_is_configured = volume->size_is_configured || spec.quota_bytes;
  if (!is_new && !spec.quota_bytes) return {};
  if (spec.quota_bytes) volume->record.quota_blocks = *spec.quota_bytes / kBlockBytes;
  blocks_.set_quota(volume->id, volume->record.quota_blocks);
  const Status stored = store_record(*volume, true);
  if (!stored.ok()) *why = fmt::format("volume '{}': cannot be stored: {}", spec.name, std::strerror(stored.code()));
  return stored;
}

Status VolumeTable::store_record(Volume& volume, bool sync) {
  if (records_ == nullptr) return {};
  const StoreVolume record = volume.record;
  mutex_.unlock();
  Status stored = records_->write_volume(static_cast<uint32_t>(volume.id), record);
  if (stored.ok() && sync) stored = records_->sync();
  mutex_.lock();
  return stored;
}

void VolumeTable::fill_stat(VolumeId id, bool of_others, BrickStat& stat) const {
  stat.medium = of_others ? medium_() : without_path(medium_());
  MutexLock lock(mutex_);
  for (const auto& [volume_id, volume] : volumes_)
    if (of_others || volume_id == id) stat.sessions += volume.holders.size() + volume.guests.size();
  const Volume& volume = volumes_.at(id);
  stat.epoch = Epoch{volume.record.epoch};
  if (!volume.holders.empty()) {
    stat.holder = volume.holders.front()->holder();
  } else if (volume.record.holder_client != 0) {
    stat.holder = away_holder(volume);
    stat.holder_away = true;
  }
}

}  // namespace brickfs
