// SPDX-License-Identifier: Apache-2.0
#include "transport/accept/unauthenticated_places.h"

#include <algorithm>

namespace brickfs {

UnauthenticatedPlaces::Entered UnauthenticatedPlaces::enter(const PeerHost& host) {
  MutexLock lock(mutex_);
  Entered entered;
  const auto own = of_host_.find(host);
  if (own != of_host_.end() && own->second >= most_of_host_) {
    entered.displaced = oldest_of(host);
  } else if (places_.size() >= most_) {
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    entered.displaced = oldest_with(std::ranges::max_element(of_host_, fewer)->second);
  }
  if (entered.displaced) erase(*entered.displaced);
  entered.number = ++last_;
  places_.emplace(entered.number, host);
  ++of_host_[host];
  return entered;
}

bool UnauthenticatedPlaces::leave(Number number) {
  MutexLock lock(mutex_);
  return erase(number);
}

UnauthenticatedPlaces::Number UnauthenticatedPlaces::oldest_with(size_t places) const {
  auto at = places_.begin();
  while (of_host_.at(at->second) != places) ++at;
  return at->first;
}

UnauthenticatedPlaces::Number UnauthenticatedPlaces::oldest_of(const PeerHost& host) const {
  return std::ranges::find_if(places_, [&](const auto& place) { return place.second == host; })->first;
}

bool UnauthenticatedPlaces::erase(Number number) {
  const auto found = places_.find(number);
  if (found == places_.end()) return false;
  const auto own = of_host_.find(found->second);
  if (--own->second == 0) of_host_.erase(own);
  places_.erase(found);
  return true;
}

}  // namespace brickfs
