// SPDX-License-Identifier: Apache-2.0
#include "server/peers/admitted_connections.h"

#include <utility>

#include "server/service/server_limits.h"

namespace brickfs {
namespace {

constexpr size_t kPartOfFreeRoom = 64;  // that the session of a holder may have; a mount wants 14 connections

}  // namespace

void AdmittedConnections::Place::swap(Place& other) noexcept {
  std::swap(all_, other.all_);
  std::swap(is_kept_, other.is_kept_);
  std::swap(shared_, other.shared_);
}

AdmittedConnections::Place& AdmittedConnections::Place::operator=(Place&& other) noexcept {
  swap(other);
  return *this;
}

AdmittedConnections::Place::~Place() {
  if (all_ != nullptr) all_->leave(*this);
}

AdmittedConnections::Place AdmittedConnections::enter(const Owner& owner) {
  MutexLock lock(mutex_);
  Place place;
  if (owner.kind == Kind::kHolder && owner.session_has < limits::kConnectionsNeeded && kept_taken_ < kept_) {
    ++kept_taken_;
    place.is_kept_ = true;
  } else {
    if (common_taken_ >= common_ || !has_common_room(owner)) return place;
    ++common_taken_;
    if (owner.kind == Kind::kShared) ++shared_[place.shared_ = owner.volume];
  }
  place.all_ = this;
  return place;
}

// A volume that is shared has no more than it leaves to all others, or four times as many if its sessions need them:
// so each finds some, however many come.
bool AdmittedConnections::has_common_room(const Owner& owner) const {
  const size_t free = common_ - common_taken_;
  const bool needed = owner.session_has < limits::kConnectionsNeeded;
  if (owner.kind == Kind::kHolder) return needed || owner.session_has < free / kPartOfFreeRoom;
  if (owner.kind == Kind::kOther) return true;
  const auto found = shared_.find(owner.volume);
  return (found == shared_.end() ? 0 : found->second) < (needed ? 4 * free : free);
}

void AdmittedConnections::leave(const Place& place) {
  MutexLock lock(mutex_);
  if (place.is_kept_) {
    --kept_taken_;
    return;
  }
  --common_taken_;
  const auto volume = shared_.find(place.shared_);
  if (volume != shared_.end() && --volume->second == 0) shared_.erase(volume);
}

size_t AdmittedConnections::count() const {
  MutexLock lock(mutex_);
  return kept_taken_ + common_taken_;
}

}  // namespace brickfs
