// SPDX-License-Identifier: Apache-2.0
// A holder's grip on the map of its volume (transport/membership/set_map.h): what it was last seen to be, and changes
// of it, one at a time, which happen only as long as this client is the holder.
//
// Threads: any. The store is asked without locks that a reader of map() would wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/membership/set_map.h"

namespace brickfs {

class MapKeeper {
 public:
  explicit MapKeeper(std::shared_ptr<MapStore> store) : store_(std::move(store)) {}

  // Errors as MapStore::load().
  Status load();
  // From what was loaded, whoever holds it: `edit` makes this client the holder, its generation the epoch. EAGAIN: the
  // map has changed since.
  Status claim(const MapHolder& holder, const std::function<void(SetMap&)>& edit);
  // From what was loaded, as one that is not the holder yet: `edit`, and the generation is raised. Errors as claim().
  Status announce(const std::function<void(SetMap&)>& edit);
  // Durable when it returns; the generation is raised. `edit` may be called again, with a newer map; false from it:
  // nothing is to be changed. ESTALE: the volume has another holder, for good. EHOSTUNREACH, ETIMEDOUT: nobody
  // answered, and it may happen yet, until a later change() has returned, whatever that changes. EUCLEAN: what is
  // stored is older than what was seen. Answers the generation of the map that `edit` has made, or found right.
  Result<uint64_t> change(const std::function<bool(SetMap&)>& edit);
  // What others did to it meanwhile. As change(); what nobody answered may still happen.
  Status refresh();

  // As it was last seen; it stays as it is.
  std::shared_ptr<const SetMap> map() const;
  uint64_t generation() const { return generation_.load(); }  // of map()
  // Why the store did not do what was asked last, for people; empty: it did. A change that it has refused is asked for
  // until it, or another, is done, or is wanted no more: meanwhile that the map can be read is not enough.
  std::string trouble() const;
  // How long it has not done what was asked; 0: it did.
  std::chrono::milliseconds troubled_for() const;

 private:
  Status load_as_holder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  Status refuse_old(uint64_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  Status check_holder() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  void note(SetMap map, uint64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  Status told(Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  Status told_change(Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);

  const std::shared_ptr<MapStore> store_;
  Mutex changing_;  // one change at a time
  uint64_t version_ ABSL_GUARDED_BY(changing_) = 0;
  bool in_doubt_ ABSL_GUARDED_BY(changing_) = false;  // what became of the last change
  bool refused_ ABSL_GUARDED_BY(changing_) = false;   // the last change was not done
  // What a replace() compared with that nobody answered. As long as that is what is stored, it may happen yet.
  std::optional<uint64_t> unanswered_ ABSL_GUARDED_BY(changing_);
  bool said_old_ ABSL_GUARDED_BY(changing_) = false;  // that what is stored is
  MapHolder holder_ ABSL_GUARDED_BY(changing_);

  mutable Mutex mutex_;
  std::shared_ptr<const SetMap> map_ ABSL_GUARDED_BY(mutex_) = std::make_shared<SetMap>();
  std::atomic<uint64_t> generation_{0};
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::chrono::steady_clock::time_point> troubled_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
