// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/set_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "transport/brick/limits.h"
#include "transport/brick/source.h"

namespace brickfs {
namespace {

Status refuse_map(std::string* why, std::string text, int code = EUCLEAN) {
  *why = std::move(text);
  return Error(code, "map of a set");
}

bool is_in_sync(const MapReplica& replica) { return replica.state == ReplicaState::kInSync; }

}  // namespace

const char* name_of(ReplicaState state) {
  switch (state) {
    case ReplicaState::kInSync:
      return "in sync";
    case ReplicaState::kSyncing:
      return "syncing";
    case ReplicaState::kStale:
      break;
  }
  return "stale";
}

bool SetMap::is_degraded() const {
  return std::ranges::any_of(places, [this](const MapPlace& place) {
    return static_cast<uint64_t>(std::ranges::count_if(place.replicas, is_in_sync)) < wanted;
  });
}

bool SetMap::is_untouched(const MapPlace& place) const {
  return !place.made && (!holder || holder->epoch < place.added);
}

// Who lets go has marked all that are in sync. A map of a brickfs from before `marked` says no more.
uint64_t SetMap::least_mark(const MapReplica& replica) const {
  const bool let_go = holder && holder->let_go && replica.state == ReplicaState::kInSync;
  return std::max(replica.marked, let_go ? holder->epoch : 0);
}

size_t SetMap::count_on(const std::string& brick) const {
  size_t count = 0;
  for (const MapPlace& place : places) {
    for (const MapReplica& replica : place.replicas) {
      if (replica.source.substr(0, replica.source.rfind('/')) == brick) ++count;
    }
  }
  return count;
}

Status check_map(const SetMap& map, std::string* why) {
  if (map.places.empty() || map.places.size() > limits::kBricksPerSet)
    return refuse_map(why, fmt::format("a map of {} places", map.places.size()));
  if (map.wanted == 0 || map.wanted > limits::kReplicas)
    return refuse_map(why, fmt::format("{} replicas wanted", map.wanted));
  std::set<std::string> sources;
  std::set<MemberId> ids;
  for (size_t i = 0; i < map.places.size(); ++i) {
    const MapPlace& place = map.places[i];
    if (std::ranges::none_of(place.replicas, is_in_sync))
      return refuse_map(why, fmt::format("place {} has no copy in sync", i));
    if (place.replicas.size() > 2 * limits::kReplicas)
      return refuse_map(why, fmt::format("place {} has too many copies", i));
    if (place.added > map.generation) return refuse_map(why, "a place of a later generation");
    for (const MapReplica& replica : place.replicas) {
      std::string trouble;
      const auto source = parse_source(replica.source, &trouble);
      if (!source.ok()) return refuse_map(why, trouble);
      // An embedded one would be made by, and in, every host that reads this map.
      if (source->kind == SourceKind::kEtcd || source->embedded())
        return refuse_map(why, fmt::format("{} is no brick that others reach", replica.source));
      if (source->is_set()) return refuse_map(why, fmt::format("{} is more than one brick", replica.source));
      if (!sources.insert(replica.source).second)
        return refuse_map(why, fmt::format("{} is there twice", replica.source));
      if (!ids.insert(replica.id).second) return refuse_map(why, "two replicas have one id");
      if (replica.since > map.generation) return refuse_map(why, "a replica of a later generation");
      if (replica.marked > map.generation) return refuse_map(why, "a replica with a mark of a later generation");
    }
  }
  return {};
}

void set_state(MapReplica& replica, ReplicaState state, uint64_t since) {
  replica.state = state;
  replica.since = since;
  replica.copied_blocks = replica.total_blocks = 0;
  if (state != ReplicaState::kInSync) return;
  replica.missed = 0;
  replica.trouble.clear();
}

Result<std::vector<MapPlace>> plan_places(const std::vector<NamedBrick>& bricks, uint64_t replicas,
                                          const std::string& volume, std::string* why) {
  const size_t count = bricks.size();
  if (replicas < 1 || replicas > limits::kReplicas) {
    return refuse_map(why, fmt::format("1 to {} replicas", limits::kReplicas), EINVAL).error();
  }
  if (count < replicas)
    return refuse_map(why, fmt::format("{} replicas need {} bricks", replicas, replicas), EINVAL).error();
  if (count > limits::kBricksPerSet)
    return refuse_map(why, fmt::format("at most {} bricks", limits::kBricksPerSet), EINVAL).error();
  const auto domain_of = [&](size_t brick) {
    return bricks[brick].domain.empty() ? bricks[brick].brick : bricks[brick].domain;
  };
  std::map<std::string, size_t> volumes;  // by brick
  std::vector<MapPlace> places;
  for (size_t first = 0; first < (count == replicas ? 1 : count); ++first) {
    MapPlace place;
    std::set<std::string> domains;
    for (size_t step = 0; step < count && place.replicas.size() < replicas; ++step) {
      const size_t brick = (first + step) % count;
      if (!domains.insert(domain_of(brick)).second) continue;
      const size_t number = ++volumes[bricks[brick].brick];
      MapReplica replica;
      replica.source = bricks[brick].brick + "/" + volume + (number == 1 ? "" : fmt::format(".{}", number));
      replica.domain = domain_of(brick);
      place.replicas.push_back(std::move(replica));
    }
    if (place.replicas.size() < replicas) {
      return refuse_map(why, fmt::format("{} replicas need bricks in {} domains", replicas, replicas), EINVAL).error();
    }
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace brickfs
