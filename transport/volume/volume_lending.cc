// SPDX-License-Identifier: Apache-2.0
// What a VolumeClient does about bytes that others write to its brick.
#include "transport/volume/volume_client.h"
#include "transport/volume/volume_session.h"

namespace brickfs {

// It is known before the brick is asked: whatever becomes of the session, expel() takes it back.
Status VolumeClient::admit(ClientId client, const Interruption* by) {
  {
    MutexLock lock(admitted_mutex_);
    while (admitting_.contains(client)) TRY(wait_interruptibly(admitting_changed_, lock, by));
    if (!admitted_.insert(client).second) return {};
    admitting_.insert(client);
  }
  Patience patience(options_.soft, by);
  const Status status = in_session(patience, [&](Brick& brick) { return brick.admit(client); });
  MutexLock lock(admitted_mutex_);
  admitting_.erase(client);
  if (!status.ok()) admitted_.erase(client);
  admitting_changed_.notify_all();
  return status;
}

// By the link's thread, of a new session: a brick that has restarted lets nobody in. Whom it does not take now does not
// write there.
Status VolumeClient::admit_again(Brick& brick) {
  std::vector<ClientId> clients;
  {
    MutexLock lock(admitted_mutex_);
    clients.assign(admitted_.begin(), admitted_.end());
  }
  for (const ClientId client : clients) {
    const Status status = brick.admit(client);
    if (!status.ok() && !status.error().is(EUSERS) && !status.error().is(EOPNOTSUPP)) return status;
  }
  return {};
}

// A session that is begun meanwhile admits it no more, or has done so before the brick is asked. One that is away is
// not waited for: others are to be asked, too.
Status VolumeClient::expel(ClientId client) {
  {
    MutexLock lock(admitted_mutex_);
    while (admitting_.contains(client)) admitting_changed_.wait(lock);
    admitted_.erase(client);
  }
  Patience none(std::chrono::milliseconds(0));
  if (link_->is_away()) return Error(EAGAIN, "the brick is away");
  const Status status = in_session(none, [&](Brick& brick) { return brick.expel(client); });
  return status.code() == EOPNOTSUPP ? Status() : status;  // an older one has no such sessions
}

Status VolumeClient::adopt(std::span<const LentRange> ranges, BootId boot, Epoch epoch,
                           const std::shared_ptr<LentBytes>& bytes, const Interruption* by) {
  uint64_t length_bytes = 0;
  std::vector<ReplayLog::Record> records;
  for (const LentRange& range : ranges) {
    length_bytes += range.length_bytes;
    log_->name(range, bytes, records);
  }
  Patience patience(options_.soft, by);
  ReplayLog::Room room = TRY(reserve(length_bytes, Stage::kData, patience));
  // Within the stay: a replay, which waits for its end, finds it, or it is of a former boot.
  const VolumeLink::Guard guard = TRY(link_->enter(patience));
  const Session session = link_->session();
  if (session.boot != boot || session.epoch != epoch) return Error(EAGAIN, "the brick is in another life");
  log_->append(std::move(records), room);
  return {};
}

}  // namespace brickfs
