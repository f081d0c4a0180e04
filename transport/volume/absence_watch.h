// SPDX-License-Identifier: Apache-2.0
// Ends calls to bricks that nobody has to wait for, also in a hard mount: of one that is away for two seconds
// (VolumeClient::interrupt()). While a set with copies is opened the others have everything; a copy that is of the set
// no more only gives its blocks back.
//
// Threads: one of its own; the functions are called by one other.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/thread.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class AbsenceWatch final {
 public:
  AbsenceWatch();
  ~AbsenceWatch() { stop(); }
  AbsenceWatch(const AbsenceWatch&) = delete;
  AbsenceWatch& operator=(const AbsenceWatch&) = delete;

  // From now on, until it is removed or the watch is stopped. `name`: of the brick, for people.
  void add(VolumeClient& client, std::string name);
  void remove(const VolumeClient& client);
  void stop();
  // The first one that was away for so long; empty: none.
  std::string gone() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    VolumeClient* client = nullptr;
    std::string name;
    std::optional<Clock::time_point> away_since;
  };

  void run();
  void look(Watched& watched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
  std::string gone_ ABSL_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace brickfs
