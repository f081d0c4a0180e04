// SPDX-License-Identifier: Apache-2.0
// Which volumes there are; lease.cc says who gets them.
#include "server/service/volume_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "transport/brick/limits.h"
#include "transport/brick/volume_name.h"

namespace brickfs {

VolumeTable::VolumeTable(BlockStore& blocks, VolumeRecords* records, Session geometry, std::chrono::milliseconds grace,
                         std::function<std::string()> medium)
    : blocks_(blocks), records_(records), geometry_(geometry), grace_(grace), medium_(std::move(medium)) {}

VolumeTable::Volume& VolumeTable::add(VolumeId id, const StoreVolume& record) {
  Volume& volume = volumes_[id];
  volume.id = id;
  volume.record = record;
  blocks_.add_volume(id, record.quota_blocks);
  by_name_.try_emplace(record.name.data(), &volume);
  return volume;
}

void VolumeTable::load(std::span<const StoreVolume> records) {
  MutexLock lock(mutex_);
  for (uint32_t id = 0; id < records.size(); ++id) {
    if (records[id].in_use == 0) continue;
    Volume& volume = add(VolumeId{id}, records[id]);
    if (records[id].holder_client != 0) volume.kept_until = std::chrono::steady_clock::now() + grace_;
  }
}

Status VolumeTable::configure(std::span<const VolumeSpec> specs, std::string* why) {
  MutexLock lock(mutex_);
  TRY(configure_one({.name = "default", .quota_bytes = {}}, why));
  for (const VolumeSpec& spec : specs) TRY(configure_one(spec, why));
  return {};
}

Status VolumeTable::configure_one(const VolumeSpec& spec, std::string* why) {
  if (!is_volume_name(spec.name)) {
    *why =
        fmt::format("volume name '{}': 1 to {} letters, digits, '.', '_' and '-'", spec.name, limits::kVolumeNameBytes);
    return Error(EINVAL, "naming a volume");
  }
  const auto known = by_name_.find(spec.name);
  Volume* volume = known == by_name_.end() ? nullptr : known->second;
  if (volume != nullptr && !spec.quota_bytes) return {};
  if (volume == nullptr) {
    const VolumeId id{volumes_.empty() ? 0 : static_cast<uint32_t>(volumes_.rbegin()->first) + 1};
    if (static_cast<uint32_t>(id) >= limits::kVolumes) {
      *why = fmt::format("volume '{}': a brick has at most {} volumes", spec.name, limits::kVolumes);
      return Error(EINVAL, "making a volume");
    }
    StoreVolume record{};
    std::memcpy(record.name.data(), spec.name.data(), spec.name.size());
    record.quota_blocks = kNoQuota;
    volume = &add(id, record);
  }
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

void VolumeTable::fill_stat(VolumeId id, BrickStat& stat) const {
  stat.medium = medium_();
  MutexLock lock(mutex_);
  for (const auto& [volume_id, volume] : volumes_) stat.sessions += volume.holders.size() + volume.observers.size();
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
