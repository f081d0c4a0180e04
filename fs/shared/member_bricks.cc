// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/member_bricks.h"

#include <algorithm>
#include <iterator>

#include "transport/brick/limits.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLookAtRetired{100};
constexpr milliseconds kFirstRest{1'000};
constexpr seconds kMostRest{30};
// A taker waits for a lease of the bricks before anything is changed on what he could not open.
constexpr milliseconds kHeardWithin = limits::kLease - milliseconds(1'000);

const Error kNotNow(ENOTCONN, "the bricks are not read from here now");

bool is_alive(const VolumeClient& client, const ReadableBrick& brick) {
  return !client.is_away() && client.boot() == brick.boot;
}

bool is_heard(const VolumeClient& client) { return MemberBricks::Clock::now() - client.known_at() < kHeardWithin; }

}  // namespace

MemberBricks::MemberBricks(Open open, uint64_t preferred) : open_(std::move(open)), preferred_(preferred) {
  opener_ = Thread([this] { open_wanted(); });
}

MemberBricks::~MemberBricks() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  opener_.join();
  for (const auto& [name, brick] : bricks_)
    if (brick.client != nullptr) brick.client->interrupt(false);
}

Result<MemberBricks::Clients> MemberBricks::find_all(uint32_t place, std::span<const ReadableBrick> bricks,
                                                     bool writes) {
  if (bricks.empty()) return kNotNow;
  Clients clients;
  for (const ReadableBrick& brick : bricks) {
    clients.push_back(find(place, brick, writes));
    if (clients.back() == nullptr || !is_alive(*clients.back(), brick)) return kNotNow;
  }
  return clients;
}

Status MemberBricks::read(uint32_t place, std::span<const ReadableBrick> bricks, std::span<const Piece> pieces,
                          const Interruption* by) {
  const Clients clients = TRY(find_all(place, bricks, false));
  const auto are_here = [&] {
    for (size_t i = 0; i < bricks.size(); ++i)
      if (!is_alive(*clients[i], bricks[i]) || (bricks.size() > 1 && !is_heard(*clients[i]))) return false;
    return true;
  };
  if (!are_here()) return kNotNow;
  const size_t chosen = preferred_ % bricks.size();
  const Status done = clients[chosen]->read(pieces, by);
  if (done.code() == EINTR) return done;
  if (!done.ok()) failed(place, bricks[chosen]);
  if (!done.ok() || !are_here()) return kNotNow;
  worked(place, bricks[chosen]);
  return {};
}

Status MemberBricks::prepare_to_write(uint32_t place, std::span<const ReadableBrick> bricks) {
  const auto clients = find_all(place, bricks, true);
  return clients.ok() ? Status() : Status(clients.error());
}

// Nothing waits for who was heard of when: what is written here is nobody's before the coordinator says so.
Status MemberBricks::write(uint32_t place, std::span<const ReadableBrick> bricks, std::span<const Piece> pieces) {
  const Clients clients = TRY(find_all(place, bricks, true));
  for (size_t i = 0; i < bricks.size(); ++i) {
    Status done = clients[i]->write(pieces, Stage::kData);
    if (done.ok()) done = clients[i]->make_visible();
    if (done.ok() && is_alive(*clients[i], bricks[i])) continue;
    failed(place, bricks[i]);
    for (const ReadableBrick& brick : bricks) retire(place, brick);
    return Error(EIO, "it is not known what was written to a brick");
  }
  for (const ReadableBrick& brick : bricks) worked(place, brick);
  return {};
}

void MemberBricks::retire(uint32_t place, const ReadableBrick& wanted) {
  MutexLock lock(mutex_);
  Brick& brick = bricks_[{place, wanted.source}];
  if (brick.client == nullptr) return;
  retired_.push_back(std::move(brick.client));
  brick.client = nullptr;
  changed_.notify_all();
}

std::shared_ptr<VolumeClient> MemberBricks::find(uint32_t place, const ReadableBrick& wanted, bool writes) {
  MutexLock lock(mutex_);
  Brick& brick = bricks_[{place, wanted.source}];
  if (writes && Clock::now() < brick.writes_again_from) return nullptr;
  const bool is_lost = brick.client != nullptr && !brick.client->final_error().ok();
  const bool is_former = brick.client != nullptr && brick.wanted.epoch != wanted.epoch;
  const bool only_reads = brick.client != nullptr && writes && !brick.writes;
  if (is_lost || is_former || only_reads) {
    retired_.push_back(std::move(brick.client));
    brick.client = nullptr;
    changed_.notify_all();
  }
  if (brick.wanted.epoch != wanted.epoch) brick.rest = {}, brick.rests_until = {};
  brick.wanted = wanted;
  if (brick.client == nullptr) brick.writes = brick.writes || writes;
  if (Clock::now() < brick.rests_until) return nullptr;
  if (brick.client != nullptr) return brick.client;
  if (!std::exchange(brick.is_opening, true)) changed_.notify_all();
  return nullptr;
}

void MemberBricks::let_rest(Brick& brick) {
  brick.rest = std::clamp<Clock::duration>(2 * brick.rest, kFirstRest, kMostRest);
  brick.rests_until = Clock::now() + brick.rest;
}

void MemberBricks::failed(uint32_t place, const ReadableBrick& brick) {
  MutexLock lock(mutex_);
  Brick& failing = bricks_[{place, brick.source}];
  if (Clock::now() >= failing.rests_until) let_rest(failing);  // else another has just seen it, too
}

void MemberBricks::worked(uint32_t place, const ReadableBrick& brick) {
  MutexLock lock(mutex_);
  bricks_[{place, brick.source}].rest = {};
}

void MemberBricks::open_wanted() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto wanted = std::ranges::find_if(bricks_, [](const auto& one) { return one.second.is_opening; });
    if (wanted != bricks_.end()) {
      open_one(Name(wanted->first));
    } else if (!retired_.empty()) {
      end_retired(lock);
    } else {
      changed_.wait(lock);
    }
  }
}

// Which may take its time; who reads by one yet is waited for.
void MemberBricks::end_retired(MutexLock& lock) {
  std::vector<std::shared_ptr<VolumeClient>> ended;
  const auto is_used = [](const auto& client) { return client.use_count() > 1; };
  const auto idle = std::partition(retired_.begin(), retired_.end(), is_used);
  ended.assign(std::make_move_iterator(idle), std::make_move_iterator(retired_.end()));
  retired_.erase(idle, retired_.end());
  if (ended.empty()) return (void)changed_.wait_for(lock, kLookAtRetired);
  mutex_.unlock();
  ended.clear();
  mutex_.lock();
}

void MemberBricks::open_one(const Name& name) {
  const ReadableBrick wanted = bricks_[name].wanted;
  const bool writes = bricks_[name].writes;
  mutex_.unlock();
  auto opened = open_(name.first, wanted, writes);
  if (opened.ok()) (*opened)->share_keys(keys_, name.first);
  mutex_.lock();
  Brick& brick = bricks_[name];
  brick.is_opening = false;
  if (!opened.ok() && writes) {  // it may be read yet
    brick.writes = false;
    brick.writes_again_from = Clock::now() + kFirstRest;
    return;
  }
  if (!opened.ok()) return let_rest(brick);
  if (brick.wanted.epoch == wanted.epoch) brick.client = std::move(*opened);
}

}  // namespace brickfs::shared
