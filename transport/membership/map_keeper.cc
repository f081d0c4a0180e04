// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/map_keeper.h"

#include <fmt/core.h>

#include <utility>

#include "transport/base/log.h"

namespace brickfs {

void MapKeeper::note(SetMap map, uint64_t version) {
  version_ = version;
  in_doubt_ = false;
  if (unanswered_ && *unanswered_ != version) unanswered_.reset();
  MutexLock lock(mutex_);
  generation_ = map.generation;
  map_ = std::make_shared<const SetMap>(std::move(map));
}

Status MapKeeper::told(Status status) {
  const bool done = status.ok() || status.error().is(EAGAIN);
  if (done && refused_) return status;
  std::string why = done ? std::string() : store_->trouble();
  MutexLock lock(mutex_);
  trouble_ = std::move(why);
  if (trouble_.empty()) troubled_since_.reset();
  if (!trouble_.empty() && !troubled_since_) troubled_since_ = std::chrono::steady_clock::now();
  return status;
}

Status MapKeeper::told_change(Status status) {
  refused_ = !status.ok();
  return told(std::move(status));
}

Status MapKeeper::load() {
  MutexLock lock(changing_);
  auto stored = store_->load();
  TRY(told(stored.ok() ? Status() : Status(stored.error())));
  note(std::move(stored->map), stored->version);
  return {};
}

Status MapKeeper::claim(const MapHolder& holder, const std::function<void(SetMap&)>& edit) {
  MutexLock lock(changing_);
  SetMap map = *this->map();
  edit(map);
  ++map.generation;
  map.holder = holder;
  map.holder->epoch = map.generation;
  map.holder->let_go = false;
  const auto version = store_->replace(map, version_);
  TRY(told(version.ok() ? Status() : Status(version.error())));
  holder_ = *map.holder;
  note(std::move(map), *version);
  return {};
}

Status MapKeeper::announce(const std::function<void(SetMap&)>& edit) {
  MutexLock lock(changing_);
  SetMap map = *this->map();
  edit(map);
  ++map.generation;
  const auto version = store_->replace(map, version_);
  TRY(told(version.ok() ? Status() : Status(version.error())));
  note(std::move(map), *version);
  return {};
}

// Also of a map that was loaded before: nobody else's is ever changed.
Status MapKeeper::check_holder() const {
  const auto map = this->map();
  if (map->holder && map->holder->client == holder_.client && map->holder->epoch == holder_.epoch) return {};
  return Error(ESTALE, "the volume has another holder");
}

// What it says of replicas holds no more.
Status MapKeeper::refuse_old(uint64_t generation) {
  const uint64_t seen = this->generation();
  if (generation >= seen) return {};
  const std::string why =
      fmt::format("the map is at generation {}, and was at {}: etcd was restored from an old backup", generation, seen);
  if (!std::exchange(said_old_, true)) log::error("{}; no copy is left out or comes back by it", why);
  MutexLock lock(mutex_);
  trouble_ = why;
  if (!troubled_since_) troubled_since_ = std::chrono::steady_clock::now();
  return Error(EUCLEAN, "map of a set");
}

Status MapKeeper::load_as_holder() {
  auto stored = store_->load();
  if (!stored.ok()) return told(stored.error());
  TRY(refuse_old(stored->map.generation));
  static_cast<void>(told({}));
  note(std::move(stored->map), stored->version);
  return check_holder();
}

Result<uint64_t> MapKeeper::change(const std::function<bool(SetMap&)>& edit) {
  MutexLock lock(changing_);
  for (;;) {
    if (in_doubt_) TRY(load_as_holder());
    TRY(check_holder());
    SetMap map = *this->map();
    if (!edit(map)) {
      if (!unanswered_) {
        static_cast<void>(told_change({}));
        return generation();
      }
      map = *this->map();  // once more, as another version: with this one what nobody answered would happen behind us
    }
    ++map.generation;
    const auto version = store_->replace(map, version_);
    if (version.ok()) {
      note(std::move(map), *version);
      static_cast<void>(told_change({}));
      return generation();
    }
    in_doubt_ = true;
    if (version.error().is(EAGAIN)) continue;
    if (version.error().is(ETIMEDOUT) || version.error().is(EHOSTUNREACH)) unanswered_ = version_;
    return told_change(version.error()).error();
  }
}

Status MapKeeper::refresh() {
  MutexLock lock(changing_);
  return load_as_holder();
}

std::shared_ptr<const SetMap> MapKeeper::map() const {
  MutexLock lock(mutex_);
  return map_;
}

std::string MapKeeper::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

std::chrono::milliseconds MapKeeper::troubled_for() const {
  MutexLock lock(mutex_);
  if (!troubled_since_) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - *troubled_since_);
}

}  // namespace brickfs
