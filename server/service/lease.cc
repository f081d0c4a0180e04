// SPDX-License-Identifier: Apache-2.0
// Who gets a volume: VolumeTable's leases.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <iterator>
#include <utility>

#include "server/service/server_limits.h"
#include "server/service/volume_table.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// Who may only read replaces none that may more, whatever client it says it is.
bool replaces(const OpenRequest& request, const PeerEnd& peer, const ServerSession& session) {
  return session.client() == request.client && (peer.may_write() || !session.peer().may_write());
}

}  // namespace

Status VolumeTable::check(const OpenRequest& request) {
  const bool known_mode = request.mode >= OpenMode::kExclusive && request.mode <= OpenMode::kFollow &&
                          (!request.bound || request.mode == OpenMode::kFollow) && (!request.writes || request.bound);
  if (!known_mode || request.client == ClientId{} || request.client_name.size() > limits::kClientNameBytes) {
    return Error(EINVAL, "opening a session");
  }
  return {};
}

// A volume that nobody has held since a volatile brick started knows nothing of former epochs: whoever comes is
// welcome, and sees by the boot id that it is not what he left.
Status VolumeTable::check_resume(const Volume& volume, const OpenRequest& request) const {
  const StoreVolume& lease = volume.record;
  if (request.resume == Epoch{} || lease.epoch == 0) return {};
  const bool same_lease =
      Epoch{lease.epoch} == request.resume && lease.lease_mode == static_cast<uint32_t>(request.mode);
  const bool shared = request.mode == OpenMode::kReadOnly;
  if (same_lease && (shared || ClientId{lease.holder_client} == request.client)) return {};
  const auto gone = gone_.find(request.volume);
  if (gone != gone_.end() && request.resume <= Epoch{gone->second}) return Error(EIDRM, "the volume was removed");
  // Nobody was granted that epoch here: the store is an older one, which was put back.
  if (Epoch{lease.epoch} < request.resume) return Error(EIDRM, "the volume is an older one");
  return Error(ESTALE, "the volume has gone to another since");
}

Status VolumeTable::check_bound(const Volume& volume, const OpenRequest& request) {
  if (request.bound && Epoch{volume.record.epoch} != request.resume)
    return Error(ESTALE, "the volume has gone to another since");
  if (request.writes && !volume.writers.contains(request.client))
    return Error(ESTALE, "the holder lets this client not write");
  return {};
}

// What the holder wrote and had not committed is with him only: who came before him would have him fenced, and it lost.
Status VolumeTable::check_kept(const Volume& volume, const OpenRequest& request, Holder* holder) {
  const ClientId former{volume.record.holder_client};
  if (request.steal || request.client == former || request.ended == former) return {};
  const Holder kept = away_holder(volume);
  if (kept.kept_for.count() == 0) return {};
  if (holder != nullptr) *holder = kept;
  return Error(EBUSY, "the volume is kept for its holder");
}

Holder VolumeTable::away_holder(const Volume& volume) {
  Holder holder;
  holder.name = volume.record.holder_name.data();
  holder.since_unix_seconds = volume.record.holder_since;
  holder.client = ClientId{volume.record.holder_client};
  const auto left = volume.kept_until - std::chrono::steady_clock::now();
  if (left.count() > 0) holder.kept_for = std::chrono::ceil<std::chrono::milliseconds>(left);
  return holder;
}

// Whom the request would drive out. EBUSY if it may not.
Result<VolumeTable::Sessions> VolumeTable::find_victims(const Volume& volume, const OpenRequest& request,
                                                        const PeerEnd& peer, Holder* holder) {
  Sessions victims;
  size_t staying = 0;
  for (const auto& session : volume.holders) {
    const bool own = replaces(request, peer, *session);
    const bool both_read = request.mode == OpenMode::kReadOnly && session->mode() == OpenMode::kReadOnly;
    if (both_read && !own && !session->ended()) {
      ++staying;
      continue;
    }
    if (!own && !session->ended() && !request.steal) {
      if (holder != nullptr) *holder = session->holder();
      return Error(EBUSY, "another holds the volume");
    }
    victims.push_back(session);
  }
  if (staying >= limits::kReadOnlyHolders) {
    if (holder != nullptr) *holder = volume.holders.front()->holder();
    return Error(EBUSY, "the volume has too many readers");
  }
  return victims;
}

Result<VolumeTable::Volume*> VolumeTable::settled(const std::string& name, const Abandoned& abandoned,
                                                  MutexLock& lock) {
  for (;;) {
    if (abandoned()) return Error(ECANCELED, "who asked for the volume has gone");
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return Error(ENOENT, "no such volume");
    if (!found->second->changing) return found->second;
    changed_.wait_for(lock, limits::kPeerLook);
  }
}

// Who comes back to a volume that was removed has to learn that it will not be there again.
Error VolumeTable::no_volume(const OpenRequest& request) const {
  const bool was_his =
      request.resume != Epoch{} && (gone_.contains(request.volume) || by_name_.contains(request.volume));
  return was_his ? Error(EIDRM, "the volume was removed") : Error(ENOENT, "no such volume");
}

void VolumeTable::end_change(Volume& volume) {
  volume.changing = false;
  changed_.notify_all();
}

Result<std::shared_ptr<ServerSession>> VolumeTable::open(const OpenRequest& request, PeerEnd peer, Holder* holder,
                                                         const Abandoned& abandoned) {
  TRY(check(request));
  MutexLock lock(mutex_);
  const auto found = settled(request.volume, abandoned, lock);
  if (shut_) return Error(ECONNREFUSED, "the brick is stopping");
  if (found.code() == ECANCELED) return found.error();
  if (!found.ok() || (*found)->going) return no_volume(request);
  Volume& volume = **found;
  TRY(check_proved(volume, request, peer, holder));
  if (request.mode == OpenMode::kObserve || request.mode == OpenMode::kFollow) {
    TRY(check_bound(volume, request));
    Sessions former;
    auto guest = TRY(add_guest(volume, request, std::move(peer), former));
    lock.unlock();
    fence_all(former, abandoned);
    return guest;
  }
  TRY(check_resume(volume, request));
  TRY(check_kept(volume, request, holder));
  Sessions victims = TRY(find_victims(volume, request, peer, holder));
  // A lease that goes to another takes with it who was bound to it.
  if (begins_lease(volume, request))
    std::ranges::copy_if(volume.guests, std::back_inserter(victims), &ServerSession::is_bound);
  volume.changing = true;
  const Status granted = grant(volume, request, victims, abandoned);
  end_change(volume);
  if (!granted.ok()) return granted.error();
  volume.kept_until = {};
  volume.holders.push_back(make_session(volume, request, std::move(peer)));
  return volume.holders.back();
}

size_t VolumeTable::count_of(const Sessions& sessions, OpenMode mode) {
  return static_cast<size_t>(std::ranges::count(sessions, mode, [](const auto& session) { return session->mode(); }));
}

// Beside whoever holds it. Who follows may have come back: what his former session has mapped is in nobody's way then.
Result<std::shared_ptr<ServerSession>> VolumeTable::add_guest(Volume& volume, const OpenRequest& request, PeerEnd peer,
                                                              Sessions& former) {
  const bool follows = request.mode == OpenMode::kFollow;
  if (count_of(volume.guests, request.mode) >= (follows ? limits::kFollowers : limits::kObservers))
    return Error(EUSERS, follows ? "the volume has too many followers" : "the volume has too many observers");
  std::ranges::copy_if(volume.guests, std::back_inserter(former), [&](const auto& session) {
    return follows && session->mode() == request.mode && replaces(request, peer, *session);
  });
  volume.guests.push_back(make_session(volume, request, std::move(peer)));
  return volume.guests.back();
}

void VolumeTable::fence_all(const Sessions& sessions, const Abandoned& abandoned) {
  for (const auto& session : sessions) {
    if (session->fence(abandoned)) static_cast<void>(leave(*session, false));  // writes nothing
  }
}

// That may take as long as a call of theirs, so who asked for it may be gone by then. Who was fenced can resume then.
Status VolumeTable::drive_out(Volume& volume, const Sessions& sessions, const Abandoned& abandoned) {
  mutex_.unlock();
  const auto left = std::ranges::find_if(sessions, [&](const auto& session) { return !session->fence(abandoned); });
  mutex_.lock();
  const auto is_out = [&](const auto& one) { return std::find(sessions.begin(), left, one) != left; };
  std::erase_if(volume.holders, is_out);
  std::erase_if(volume.guests, is_out);
  if (left != sessions.end() || abandoned()) return Error(ECANCELED, "who asked for the volume has gone");
  return {};
}

// Else it is as it was. Where readers stay, this one is one more of them.
bool VolumeTable::begins_lease(const Volume& volume, const OpenRequest& request) {
  return request.resume == Epoch{} || volume.record.epoch == 0;
}

Status VolumeTable::grant(Volume& volume, const OpenRequest& request, const Sessions& victims,
                          const Abandoned& abandoned) {
  for (const auto& victim : victims)
    cut_off_by_takers_ += victim->ended() || victim->client() == request.client ? 0 : 1;
  TRY(drive_out(volume, victims, abandoned));
  StoreVolume& lease = volume.record;
  if (!volume.holders.empty() || !begins_lease(volume, request)) return {};  // one more reader, or one that is back
  if (lease.epoch >= kStoreNumbers) return Error(ENOSPC, "the volume has no more epochs");
  const StoreVolume former = lease;
  volume.writers.clear();
  ++lease.epoch;
  lease.lease_mode = static_cast<uint32_t>(request.mode);
  lease.holder_client = request.mode == OpenMode::kExclusive ? static_cast<uint64_t>(request.client) : 0;
  lease.holder_since = std::time(nullptr);
  lease.holder_name = {};
  std::memcpy(lease.holder_name.data(), request.client_name.data(), request.client_name.size());
  const Status stored = store_record(volume, true);
  if (!stored.ok()) lease = former;
  return stored;
}

std::shared_ptr<ServerSession> VolumeTable::make_session(const Volume& volume, const OpenRequest& request,
                                                         PeerEnd peer) {
  ServerSession::Fixed fixed;
  fixed.volume = volume.id;
  fixed.client = request.client;
  fixed.mode = request.mode;
  fixed.bound = request.bound;
  fixed.writes = request.writes;
  fixed.holder = {
      .name = request.client_name, .since_unix_seconds = std::time(nullptr), .client = request.client, .kept_for = {}};
  fixed.number = ++last_session_;
  fixed.description = geometry_;
  fixed.description.epoch = Epoch{volume.record.epoch};
  fixed.description.capacity_blocks = std::min(volume.record.quota_blocks, geometry_.capacity_blocks);
  fixed.description.suspect_blocks = blocks_.suspect_blocks(volume.id);
  fixed.description.tcp_port = tcp_port_;
  fixed.peer = std::move(peer);
  fixed.notices = volume.notices;
  return std::make_shared<ServerSession>(std::move(fixed), blocks_, *this);
}

// While somebody changes the volume its record is his to write. After a take-over it is another's lease; but one that
// came to nothing may have taken the session off the volume before it gets here.
Status VolumeTable::leave(const ServerSession& session, bool gives_up) {
  MutexLock lock(mutex_);
  auto at = volumes_.find(session.volume());
  if (at == volumes_.end()) return {};
  const auto is_it = [&](const auto& other) { return other.get() == &session; };
  std::erase_if(at->second.guests, is_it);
  std::erase_if(at->second.holders, is_it);
  if (!gives_up || session.mode() != OpenMode::kExclusive) return {};
  while (at != volumes_.end() && at->second.changing) {
    changed_.wait(lock);
    at = volumes_.find(session.volume());
  }
  if (at == volumes_.end()) return {};
  Volume& volume = at->second;
  const bool is_still_his = volume.holders.empty() && Epoch{volume.record.epoch} == session.description().epoch &&
                            ClientId{volume.record.holder_client} == session.client();
  if (!is_still_his) return {};
  volume.writers.clear();
  volume.changing = true;
  const StoreVolume former = volume.record;
  volume.record.holder_client = 0;
  volume.record.lease_mode = 0;
  const Status stored =
      store_record(volume, true);  // a brick that restarts, also after its machine, keeps it for nobody
  if (!stored.ok()) volume.record = former;
  end_change(volume);
  return stored;
}

void VolumeTable::fence_silent(std::chrono::milliseconds limit, std::chrono::steady_clock::time_point now) {
  Sessions silent;
  {
    MutexLock lock(mutex_);
    const auto is_silent = [&](const auto& session) { return !session->ended() && session->silent_for(limit, now); };
    for (const auto& [id, volume] : volumes_) {
      std::ranges::copy_if(volume.holders, std::back_inserter(silent), is_silent);
      std::ranges::copy_if(volume.guests, std::back_inserter(silent), is_silent);
    }
  }
  cut_off_silent_ += silent.size();
  fence_all(silent);
}

void VolumeTable::take_from_followers(VolumeId id, BlockRange blocks) {
  Sessions followers;
  {
    MutexLock lock(mutex_);
    const auto at = volumes_.find(id);
    if (at == volumes_.end()) return;
    std::ranges::copy_if(at->second.guests, std::back_inserter(followers),
                         [](const auto& session) { return session->mode() == OpenMode::kFollow; });
  }
  for (const auto& session : followers) session->take_back(blocks);
}

Status VolumeTable::admit(const ServerSession& holder, ClientId client) {
  MutexLock lock(mutex_);
  auto& writers = volumes_.at(holder.volume()).writers;
  if (writers.size() >= limits::kFollowers && !writers.contains(client))
    return Error(EUSERS, "the volume has too many followers that write");
  writers.insert(client);
  return {};
}

// None is let in from the beginning on, so that there is no other behind those that are ended.
Status VolumeTable::expel(const ServerSession& holder, ClientId client, const Abandoned& abandoned) {
  Sessions sessions;
  {
    MutexLock lock(mutex_);
    Volume& volume = volumes_.at(holder.volume());
    volume.writers.erase(client);
    std::ranges::copy_if(volume.guests, std::back_inserter(sessions),
                         [&](const auto& session) { return session->is_bound() && session->client() == client; });
  }
  for (const auto& session : sessions) {
    if (!session->fence(abandoned)) return Error(ESTALE, "who expels has gone");
    static_cast<void>(leave(*session, false));  // writes nothing
  }
  return {};
}

void VolumeTable::shut() {
  Sessions everybody;
  {
    MutexLock lock(mutex_);
    shut_ = true;
    while (std::ranges::any_of(volumes_, [](const auto& one) { return one.second.changing; })) changed_.wait(lock);
    for (auto& [id, volume] : volumes_) {
      std::ranges::copy(volume.holders, std::back_inserter(everybody));
      std::ranges::copy(volume.guests, std::back_inserter(everybody));
    }
  }
  fence_all(everybody);
}

}  // namespace brickfs
