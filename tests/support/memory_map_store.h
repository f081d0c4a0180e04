// SPDX-License-Identifier: Apache-2.0
// The map of a set in memory, in place of etcd: one MemoryMap, and a MemoryMapStore for each client of it, whose calls
// can fail as calls over a network do.
//
// Threads: any, each call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "transport/base/mutex.h"
#include "transport/membership/set_map.h"

namespace brickfs {

class MemoryMap {
 public:
  // None: there is no such volume.
  std::optional<MapStore::Stored> get() const {
    MutexLock lock(mutex_);
    return stored_;
  }
  // As MapStore::replace().
  Result<uint64_t> replace(const SetMap& map, uint64_t version) {
    MutexLock lock(mutex_);
    if ((stored_ ? stored_->version : 0) != version) return Error(version == 0 ? EEXIST : EAGAIN, "map of a set");
    stored_ = MapStore::Stored{map, ++last_version_};
    return last_version_;
  }
  // As it was, as if etcd had been restored from a backup; the version is one of its own.
  void restore(const SetMap& map) {
    MutexLock lock(mutex_);
    stored_ = MapStore::Stored{map, ++last_version_};
  }

 private:
  mutable Mutex mutex_;
  std::optional<MapStore::Stored> stored_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_version_ ABSL_GUARDED_BY(mutex_) = 0;
};

class MemoryMapStore final : public MapStore {
 public:
  explicit MemoryMapStore(std::shared_ptr<MemoryMap> map) : map_(std::move(map)) {}

  // For this client nobody answers: EHOSTUNREACH.
  void set_away(bool away) { away_ = away; }
  // It can be read, and not changed: ENOSPC.
  void set_full(bool full) { full_ = full; }
  // The first replace() with such a map is done and reports ETIMEDOUT, and from then on it is away.
  void set_away_after(std::function<bool(const SetMap&)> last) {
    MutexLock lock(mutex_);
    last_ = std::move(last);
  }
  // Before the first replace() with such a map somebody else has changed it.
  void change_before(std::function<bool(const SetMap&)> first, std::function<void(SetMap&)> edit) {
    MutexLock lock(mutex_);
    first_ = std::move(first);
    edit_ = std::move(edit);
  }
  // From now on replace() with such a map reports ETIMEDOUT. The first of them is under way until let_happen().
  void hold_up(std::function<bool(const SetMap&)> which) {
    MutexLock lock(mutex_);
    held_up_ = std::move(which);
  }
  // As replace(), of what is under way. EINVAL: nothing is.
  Result<uint64_t> let_happen() {
    MutexLock lock(mutex_);
    held_up_ = nullptr;
    if (!under_way_) return Error(EINVAL, "map of a set");
    const Stored late = *std::exchange(under_way_, std::nullopt);
    return map_->replace(late.map, late.version);
  }
  // So many of the next replace() are done, as far as the version allows it, and report ETIMEDOUT.
  void lose_answers(int count) { answers_to_lose_ = count; }

  Result<Stored> load() override {
    if (away_) return Error(EHOSTUNREACH, "map of a set");
    auto stored = map_->get();
    if (!stored) return Error(ENOENT, "map of a set");
    return std::move(*stored);
  }
  Result<uint64_t> replace(const SetMap& map, uint64_t version) override {
    if (away_) return Error(EHOSTUNREACH, "map of a set");
    if (full_) return Error(ENOSPC, "map of a set");
    std::string why;
    TRY(check_map(map, &why));
    change_if_first(map);
    if (is_held_up(map, version)) return Error(ETIMEDOUT, "map of a set");
    auto replaced = map_->replace(map, version);
    if (is_last(map)) away_ = true;
    if (away_) return Error(ETIMEDOUT, "map of a set");
    if (answers_to_lose_.load() > 0 && answers_to_lose_.fetch_sub(1) > 0) return Error(ETIMEDOUT, "map of a set");
    return replaced;
  }
  std::string trouble() const override { return away_ ? "the map cannot be reached" : "the map is not as expected"; }

 private:
  bool is_held_up(const SetMap& map, uint64_t version) {
    MutexLock lock(mutex_);
    if (!held_up_ || !held_up_(map)) return false;
    if (!under_way_) under_way_ = Stored{map, version};
    return true;
  }

  bool is_last(const SetMap& map) {
    MutexLock lock(mutex_);
    if (!last_ || !last_(map)) return false;
    last_ = nullptr;
    return true;
  }

  void change_if_first(const SetMap& map) {
    MutexLock lock(mutex_);
    if (!first_ || !first_(map)) return;
    first_ = nullptr;
    SetMap changed = map_->get()->map;
    edit_(changed);
    map_->restore(changed);
  }

  const std::shared_ptr<MemoryMap> map_;
  std::atomic<bool> away_{false};
  std::atomic<bool> full_{false};
  std::atomic<int> answers_to_lose_{0};
  Mutex mutex_;
  std::function<bool(const SetMap&)> last_ ABSL_GUARDED_BY(mutex_);
  std::function<bool(const SetMap&)> first_ ABSL_GUARDED_BY(mutex_);
  std::function<void(SetMap&)> edit_ ABSL_GUARDED_BY(mutex_);
  std::function<bool(const SetMap&)> held_up_ ABSL_GUARDED_BY(mutex_);
  std::optional<Stored> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
