// SPDX-License-Identifier: Apache-2.0
// Volumes made, resized and removed while the brick serves: VolumeTable's calls of administrators. Each is durable, as
// far as anything of the brick is, when it returns.
#include <algorithm>
#include <iterator>
#include <map>

#include "server/service/volume_table.h"
#include "transport/brick/limits.h"
#include "transport/brick/source.h"
#include "transport/brick/wire.h"

namespace brickfs {
namespace {

constexpr size_t kNamesRemembered = 4096;

}  // namespace

AdminAnswer VolumeTable::administer(const AdminRequest& request, const Abandoned& abandoned) {
  AdminAnswer answer;
  const auto carry_out = [&]() -> Status {
    TRY(brickfs::check(request));
    switch (request.action) {
      case AdminAction::kCreate:
        return create(request, answer, abandoned);
      case AdminAction::kResize:
        return resize(request, answer, abandoned);
      case AdminAction::kRemove:
        return remove(request, answer, abandoned);
      case AdminAction::kList:
        return list(request, answer);
      case AdminAction::kClients:
        return list_clients(request, answer);
      case AdminAction::kAddKey:
        return add_key(request, answer, abandoned);
      case AdminAction::kRemoveKey:
        return remove_key(request, answer, abandoned);
      case AdminAction::kListKeys:
        return list_keys(request, answer, abandoned);
    }
    return Error(EINVAL, "no such action");
  };
  answer.status = carry_out().code();
  return answer;
}

Status VolumeTable::create(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned) {
  MutexLock lock(mutex_);
  if (shut_) return Error(ECONNREFUSED, "the brick is stopping");
  if (const auto known = by_name_.find(request.volume); known != by_name_.end()) {
    answer.volumes = {status_of(*known->second)};
    return Error(EEXIST, "there is such a volume");
  }
  if (abandoned()) return Error(ECANCELED, "who asked for the volume has gone");
  Volume& volume = *TRY(make(request.volume, request.size_blocks.value_or(kNoQuota)));
  volume.changing = true;
  const Status stored = store_record(volume, true);
  end_change(volume);
  if (!stored.ok()) {
    drop(volume);
    return stored;
  }
  answer.volumes = {status_of(volume)};
  return {};
}

Status VolumeTable::resize(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned) {
  MutexLock lock(mutex_);
  Volume& volume = *TRY(settled(request.volume, abandoned, lock));
  if (shut_) return Error(ECONNREFUSED, "the brick is stopping");
  if (volume.going) return Error(ENOENT, "the volume goes");
  answer.volumes = {status_of(volume)};
  const uint64_t wanted = request.size_blocks.value_or(kNoQuota);
  const uint64_t former = volume.record.quota_blocks;
  TRY(blocks_.change_quota(volume.id, wanted));
  volume.changing = true;
  volume.record.quota_blocks = wanted;
  const Status stored = store_record(volume, true);
  end_change(volume);
  if (!stored.ok()) {
    volume.record.quota_blocks = former;
    blocks_.set_quota(volume.id, former);
    return stored;
  }
  answer.volumes = {status_of(volume)};
  return {};
}

// Not by force. Nobody gets a block any more once nobody holds it.
Status VolumeTable::check_may_go(const Volume& volume) const {
  const auto lives = [](const auto& session) { return !session->ended(); };
  const auto follows = [&](const auto& session) { return session->mode() == OpenMode::kFollow && lives(session); };
  if (std::ranges::any_of(volume.holders, lives) || std::ranges::any_of(volume.guests, follows) ||
      volume.record.holder_client != 0) {
    return Error(EBUSY, "the volume is held");
  }
  if (blocks_.usage(volume.id).used > 0) return Error(ENOTEMPTY, "the volume has blocks");
  return {};
}

Status VolumeTable::remove(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned) {
  MutexLock lock(mutex_);
  Volume& volume = *TRY(settled(request.volume, abandoned, lock));
  if (shut_) return Error(ECONNREFUSED, "the brick is stopping");
  answer.volumes = {status_of(volume)};
  if (request.volume == kDefaultVolume) return Error(EPERM, "the default volume stays");
  if (!request.force && !volume.going) TRY(check_may_go(volume));
  const bool was_going = volume.going;
  volume.changing = volume.going = true;
  Sessions everybody = volume.holders;
  std::ranges::copy(volume.guests, std::back_inserter(everybody));
  for (const auto& session : everybody) cut_off_by_removal_ += session->ended() ? 0 : 1;
  const Status out = drive_out(volume, everybody, abandoned);
  if (out.ok()) return erase(volume);
  volume.going = was_going;
  end_change(volume);
  return out;
}

Status VolumeTable::erase(Volume& volume) {
  const bool has_more = blocks_.usage(volume.id).used > 0 || !volume.keys.empty();
  volume.changing = true;
  Status erased;
  if (has_more && volume.record.in_use != kVolumeGoing) {
    volume.record.in_use = kVolumeGoing;
    erased = store_record(volume, true);
    if (!erased.ok()) volume.record.in_use = kVolumeInUse;  // whoever asks again begins with that
  }
  if (erased.ok()) {
    const std::vector<Key> keys = volume.keys;
    mutex_.unlock();
    erased = erase_record(volume.id, keys);
    mutex_.lock();
  }
  end_change(volume);
  if (!erased.ok()) return erased;
  if (gone_.size() >= kNamesRemembered) gone_.erase(gone_.begin());
  gone_[volume.record.name.data()] = volume.record.epoch;
  drop(volume);
  return {};
}

// The order is what a store is opened by: no block, and no key, without its volume.
Status VolumeTable::erase_record(VolumeId id, const std::vector<Key>& keys) {
  TRY(blocks_.free_all(id));
  if (records_ == nullptr) return {};
  for (const Key& key : keys) TRY(records_->erase_key(key.place));
  TRY(records_->sync());
  TRY(records_->erase_volume(static_cast<uint32_t>(id)));
  return records_->sync();
}

Status VolumeTable::list(const AdminRequest& request, AdminAnswer& answer) const {
  MutexLock lock(mutex_);
  for (auto at = by_name_.upper_bound(request.volume); at != by_name_.end(); ++at) {
    if (at->second->going) continue;
    if (answer.volumes.size() == wire::kRecordsPerPage) {
      answer.more = true;
      break;
    }
    answer.volumes.push_back(status_of(*at->second));
  }
  return {};
}

Status VolumeTable::list_clients(const AdminRequest& request, AdminAnswer& answer) const {
  std::map<uint64_t, ClientStatus> behind;
  MutexLock lock(mutex_);
  for (const auto& [name, volume] : by_name_) {
    if (volume->going || (!request.volume.empty() && request.volume != name)) continue;
    for (const Sessions* sessions : {&volume->holders, &volume->guests}) {
      for (const auto& session : *sessions) {
        if (session->ended() || session->number() <= request.behind) continue;
        ClientStatus& client = behind[session->number()];
        client.number = session->number();
        client.volume = name;
        client.mode = session->mode();
        client.holder = session->holder();
        session->counters().fill(client);
      }
    }
  }
  for (auto& [number, client] : behind) {
    if (answer.clients.size() == wire::kRecordsPerPage) {
      answer.more = true;
      break;
    }
    answer.clients.push_back(std::move(client));
  }
  return {};
}

void VolumeTable::fill_numbers(BrickNumbers& numbers) const {
  numbers.cut_off_silent = cut_off_silent_;
  numbers.cut_off_by_takers = cut_off_by_takers_;
  numbers.cut_off_by_removal = cut_off_by_removal_;
  MutexLock lock(mutex_);
  for (const auto& [name, volume] : by_name_) {
    if (volume->going) continue;
    numbers.volumes.push_back(status_of(*volume));
    const VolumeStatus& status = numbers.volumes.back();
    numbers.readers += status.readers;
    numbers.holders += count_of(volume->holders, OpenMode::kExclusive);
    numbers.observers += status.observers;
    for (const Sessions* sessions : {&volume->holders, &volume->guests}) {
      for (const auto& session : *sessions) {
        if (session->ended()) continue;
        const Holder& client = session->holder();
        numbers.clients.push_back({client.name, name, session->mode(), client.since_unix_seconds});
      }
    }
  }
}

VolumeStatus VolumeTable::status_of(const Volume& volume) const {
  VolumeStatus status;
  status.name = volume.record.name.data();
  if (volume.record.quota_blocks != kNoQuota) status.size_blocks = volume.record.quota_blocks;
  const BlockStore::Usage usage = blocks_.usage(volume.id);
  status.used_blocks = usage.used;
  status.mapped_blocks = usage.mapped;
  status.resident_blocks = usage.resident;
  status.epoch = Epoch{volume.record.epoch};
  if (!volume.holders.empty()) {
    status.holder = volume.holders.front()->holder();
  } else if (volume.record.holder_client != 0) {
    status.holder = away_holder(volume);
    status.holder_away = true;
  }
  status.readers =
      static_cast<uint32_t>(count_of(volume.holders, OpenMode::kReadOnly) + count_of(volume.guests, OpenMode::kFollow));
  status.observers = static_cast<uint32_t>(count_of(volume.guests, OpenMode::kObserve));
  status.is_configured = volume.is_configured;
  status.size_is_configured = volume.size_is_configured;
  status.is_keyed = volume.record.keyed != 0;
  return status;
}

}  // namespace brickfs
