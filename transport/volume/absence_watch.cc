// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/absence_watch.h"

#include <utility>

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMostAway{2'000};
constexpr milliseconds kLookEvery{100};

}  // namespace

AbsenceWatch::AbsenceWatch() : thread_([this] { run(); }) {}

void AbsenceWatch::add(VolumeClient& client, std::string name) {
  MutexLock lock(mutex_);
  watched_.push_back({&client, std::move(name), {}});
}

void AbsenceWatch::remove(const VolumeClient& client) {
  MutexLock lock(mutex_);
  std::erase_if(watched_, [&](const Watched& watched) { return watched.client == &client; });
}

void AbsenceWatch::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stop_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::string AbsenceWatch::gone() const {
  MutexLock lock(mutex_);
  return gone_;
}

void AbsenceWatch::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    for (Watched& watched : watched_) look(watched);
    stop_.wait_for(lock, kLookEvery);
  }
}

void AbsenceWatch::look(Watched& watched) {
  const auto kind = watched.client->link_state().kind;
  if (kind == LinkState::Kind::kConnected || kind == LinkState::Kind::kFailed) {
    watched.away_since.reset();
    return;
  }
  const auto now = Clock::now();
  if (!watched.away_since) watched.away_since = now;
  if (now - *watched.away_since < kMostAway) return;
  if (gone_.empty()) gone_ = watched.name;
  watched.client->interrupt(false);
}

}  // namespace brickfs
