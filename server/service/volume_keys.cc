// SPDX-License-Identifier: Apache-2.0
// Keys of volumes, added and removed while the brick serves: VolumeTable's calls of administrators about them. Each is
// durable, as far as anything of the brick is, when it returns.
#include <algorithm>
#include <ctime>
#include <utility>

#include "server/service/volume_table.h"
#include "transport/brick/limits.h"

namespace brickfs {

std::optional<std::vector<VolumeKey>> VolumeTable::keys_of(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || found->second->record.keyed == 0) return std::nullopt;
  std::vector<VolumeKey> keys;
  for (const Key& key : found->second->keys) keys.push_back(key.key);
  return keys;
}

std::optional<Secret> VolumeTable::find_key(KeyId id) const {
  MutexLock lock(mutex_);
  for (const auto& [name, volume] : by_name_)
    for (const Key& key : volume->keys)
      if (key.key.id == id) return key.key.secret;
  return std::nullopt;
}

// What it proved may be a key no more, or a secret that opens this volume no more. Who may only read stands in nobody's
// way who writes, not even of one who is away.
Status VolumeTable::check_proved(const Volume& volume, const OpenRequest& request, const PeerEnd& peer,
                                 Holder* holder) {
  if (!peer.proved) return {};
  const auto key = peer.key();
  const auto is_it = [&](const Key& known) { return known.key.id == *key && known.key.rights == peer.proved->rights; };
  if (key.has_value() != (volume.record.keyed != 0) || (key && std::ranges::none_of(volume.keys, is_it)))
    return Error(EACCES, "that key opens the volume no more");
  if (peer.may_write()) return {};
  if (request.mode == OpenMode::kExclusive || request.writes) return Error(EROFS, "the key is for reading");
  if (request.mode != OpenMode::kReadOnly) return {};
  const auto writes = [](const auto& session) { return session->mode() == OpenMode::kExclusive; };
  const auto writer = std::ranges::find_if(volume.holders, writes);
  if (writer == volume.holders.end() && volume.record.holder_client == 0) return {};
  if (holder != nullptr) *holder = writer != volume.holders.end() ? (*writer)->holder() : away_holder(volume);
  return Error(EBUSY, "the key is for reading, and another writes");
}

template <typename Which>
VolumeTable::Sessions VolumeTable::sessions_that(const Volume& volume, const Which& which) {
  Sessions found;
  for (const Sessions* sessions : {&volume.holders, &volume.guests})
    std::ranges::copy_if(*sessions, std::back_inserter(found), [&](const auto& one) { return which(one->peer()); });
  return found;
}

std::vector<KeyStatus> VolumeTable::keys_in(const Volume& volume) {
  std::vector<KeyStatus> keys;
  for (const Key& known : volume.keys) {
    const auto came_by_it = [&](const PeerEnd& peer) { return peer.key() == known.key.id; };
    const Sessions sessions = sessions_that(volume, came_by_it);
    const auto live = std::ranges::count_if(sessions, [](const auto& session) { return !session->ended(); });
    keys.push_back({known.key.id, known.key.rights, known.key.added_unix_seconds, static_cast<uint32_t>(live)});
  }
  return keys;
}

Result<uint32_t> VolumeTable::free_key_place() const {
  uint32_t place = 0;
  while (key_places_.contains(place)) ++place;
  if (place >= limits::kKeys) return Error(ENOSPC, "the brick has as many keys as it can have");
  return place;
}

// The volume is closed to others before its first key is there: whatever happens in between, it is not open.
Status VolumeTable::store_key(Volume& volume, uint32_t place, const VolumeKey& key) {
  if (records_ != nullptr) {
    mutex_.unlock();
    const Status prepared = records_->prepare_keys();
    mutex_.lock();
    TRY(prepared);
  }
  const bool was_keyed = std::exchange(volume.record.keyed, 1) != 0;
  if (!was_keyed) TRY(store_record(volume, true));
  if (records_ == nullptr) return {};
  mutex_.unlock();
  Status stored = records_->write_key(place, static_cast<uint32_t>(volume.id), key);
  if (stored.ok()) stored = records_->sync();
  mutex_.lock();
  return stored;
}

Status VolumeTable::add_key(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned) {
  Sessions without_key;
  {
    MutexLock lock(mutex_);
    Volume& volume = *TRY(settled(request.volume, abandoned, lock));
    if (shut_) return Error(ECONNREFUSED, "the brick is stopping");
    if (volume.going) return Error(ENOENT, "the volume goes");
    VolumeKey key = request.key;
    key.id = key_id_of(key.secret);
    key.added_unix_seconds = std::time(nullptr);
    if (std::ranges::find(volume.keys, key.id, [](const Key& known) { return known.key.id; }) != volume.keys.end())
      return Error(EEXIST, "the volume has that key");
    if (volume.keys.size() >= limits::kKeysOfVolume)
      return Error(ENOBUFS, "the volume has as many keys as it can have");
    const uint32_t place = TRY(free_key_place());
    key_places_.insert(place);
    volume.changing = true;
    const Status stored = store_key(volume, place, key);
    end_change(volume);
    if (!stored.ok()) {  // its place stays taken: it may be there
      if (stored.code() == ENOTSUP) key_places_.erase(place);
      return stored;
    }
    volume.keys.push_back({place, std::move(key)});
    without_key = sessions_that(volume, [](const PeerEnd& peer) { return peer.proved && !peer.proved->key; });
    answer.keys = keys_in(volume);
  }
  for (const auto& session : without_key) cut_off_by_removal_ += session->ended() ? 0 : 1;
  fence_all(without_key);
  return {};
}

Status VolumeTable::remove_key(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned) {
  Sessions by_it;
  {
    MutexLock lock(mutex_);
    Volume& volume = *TRY(settled(request.volume, abandoned, lock));
    if (shut_) return Error(ECONNREFUSED, "the brick is stopping");
    if (volume.going) return Error(ENOENT, "the volume goes");
    const auto id_of = [](const Key& known) { return known.key.id; };
    const auto found = std::ranges::find(volume.keys, request.key.id, id_of);
    if (found == volume.keys.end()) return Error(ENOKEY, "the volume has no such key");
    const uint32_t place = found->place;
    if (records_ != nullptr) {
      volume.changing = true;
      mutex_.unlock();
      Status erased = records_->erase_key(place);
      if (erased.ok()) erased = records_->sync();
      mutex_.lock();
      end_change(volume);
      TRY(erased);
    }
    key_places_.erase(place);
    std::erase_if(volume.keys, [&](const Key& known) { return known.key.id == request.key.id; });
    by_it = sessions_that(volume, [&](const PeerEnd& peer) { return peer.key() == request.key.id; });
    answer.keys = keys_in(volume);
  }
  for (const auto& session : by_it) cut_off_by_removal_ += session->ended() ? 0 : 1;
  fence_all(by_it);
  return {};
}

Status VolumeTable::list_keys(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned) {
  MutexLock lock(mutex_);
  Volume& volume = *TRY(settled(request.volume, abandoned, lock));
  if (volume.going) return Error(ENOENT, "the volume goes");
  answer.keys = keys_in(volume);
  return {};
}

}  // namespace brickfs
