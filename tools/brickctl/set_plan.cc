// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "tools/brickctl/set.h"
#include "transport/base/random.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// Bricks that have replicas which do not leave, with their domains.
std::vector<NamedBrick> bricks_of(const SetMap& map) {
  std::vector<NamedBrick> bricks;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) {
      const std::string brick = brick_of(replica.source);
      if (!replica.leaving && std::ranges::find(bricks, brick, &NamedBrick::brick) == bricks.end())
        bricks.push_back({brick, replica.domain});
    }
  }
  return bricks;
}

// A volume of the brick that no replica has: `volume`, `volume`.2 ...
std::string free_source(const SetMap& map, const std::string& brick, const std::string& volume) {
  std::set<std::string> taken;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) taken.insert(replica.source);
  }
  std::string source = brick + "/" + volume;
  for (size_t number = 2; taken.contains(source); ++number) source = fmt::format("{}/{}.{}", brick, volume, number);
  return source;
}

MapReplica new_replica(const SetMap& map, const NamedBrick& brick, const std::string& volume) {
  MapReplica replica;
  fill_random(replica.id);
  replica.source = free_source(map, brick.brick, volume);
  replica.domain = brick.domain.empty() ? brick.brick : brick.domain;
  return replica;
}

// Whether a replica may come to the brick, when `from` (none, if null) has left the place. Why not.
std::optional<std::string> objection(const MapPlace& place, const MapReplica* from, const NamedBrick& brick) {
  const std::string domain = brick.domain.empty() ? brick.brick : brick.domain;
  for (const MapReplica& replica : place.replicas) {
    if (brick_of(replica.source) == brick.brick) return fmt::format("{} has a copy of it already", brick.brick);
    if (&replica == from || replica.leaving || replica.domain != domain) continue;
    return fmt::format("{} is in the domain {} of another copy", brick.brick, domain);
  }
  if (place.replicas.size() >= 2 * limits::kReplicas) return "it has too many copies that come and go";
  return std::nullopt;
}

void move_copy(SetMap& map, size_t place, size_t index, const NamedBrick& to, const std::string& volume,
               SetPlan& plan) {
  auto& replicas = map.places[place].replicas;
  MapReplica fresh = new_replica(map, to, volume);
  plan.fresh.push_back(fresh.id);
  if (map.is_untouched(map.places[place])) {
    fresh.state = ReplicaState::kInSync;  // there is nothing in any of them
    replicas[index] = std::move(fresh);
    ++plan.moved;
    return;
  }
  replicas[index].leaving = true;
  plan.leaving.push_back(replicas[index].id);
  plan.coming.push_back(fresh.id);
  replicas.push_back(std::move(fresh));
}

// The one with least that may have a copy of the place.
std::optional<NamedBrick> choose(const SetMap& map, const std::vector<NamedBrick>& bricks, const MapPlace& place,
                                 const MapReplica* from) {
  std::optional<NamedBrick> best;
  for (const NamedBrick& brick : bricks) {
    if (objection(place, from, brick)) continue;
    if (!best || load_of(map, brick.brick) < load_of(map, best->brick)) best = brick;
  }
  return best;
}

std::optional<size_t> index_on(const MapPlace& place, const std::string& brick) {
  const auto found = std::ranges::find_if(place.replicas,
                                          [&](const MapReplica& replica) { return brick_of(replica.source) == brick; });
  if (found == place.replicas.end()) return std::nullopt;
  return static_cast<size_t>(found - place.replicas.begin());
}

// What is under way in a place already, from an earlier command.
void follow(const MapPlace& place, SetPlan& plan) {
  for (const MapReplica& replica : place.replicas) {
    if (replica.leaving) {
      plan.leaving.push_back(replica.id);
    } else if (replica.state != ReplicaState::kInSync) {
      plan.coming.push_back(replica.id);
    }
  }
}

bool has_leaving(const MapPlace& place) { return std::ranges::any_of(place.replicas, &MapReplica::leaving); }

size_t count_lasting(const MapPlace& place) {
  return static_cast<size_t>(std::ranges::count(place.replicas, false, &MapReplica::leaving));
}

}  // namespace

std::string name_in_map(const SetMap& map, const std::string& brick) {
  std::string why;
  const auto named = parse_source(brick, &why);
  if (!named.ok() || map.count_on(brick) > 0) return brick;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) {
      const auto known = parse_source(replica.source, &why);
      if (!known.ok() || known->kind != named->kind) continue;
      const bool is_same = std::ranges::any_of(known->addresses, [&](const HostPort& address) {
        return std::ranges::find(named->addresses, address) != named->addresses.end();
      });
      if (is_same) return brick_of(replica.source);
    }
  }
  return brick;
}

size_t load_of(const SetMap& map, const std::string& brick) {
  size_t count = 0;
  for (const MapPlace& place : map.places) {
    count += static_cast<size_t>(std::ranges::count_if(place.replicas, [&](const MapReplica& replica) {
      return !replica.leaving && brick_of(replica.source) == brick;
    }));
  }
  return count;
}

const MapReplica* find_replica(const SetMap& map, const MemberId& id) {
  for (const MapPlace& place : map.places) {
    const auto found = std::ranges::find(place.replicas, id, &MapReplica::id);
    if (found != place.replicas.end()) return &*found;
  }
  return nullptr;
}

Result<SetPlan> plan_replace(SetMap& map, const std::string& brick, const NamedBrick& fresh, const std::string& volume,
                             std::string* why) {
  if (brick == fresh.brick) return refuse_set(why, brick + " is named twice");
  NamedBrick to = fresh;
  for (const NamedBrick& known : bricks_of(map)) {
    if (known.brick == to.brick && to.domain.empty()) to.domain = known.domain;
  }
  SetPlan plan;
  for (size_t place = 0; place < map.places.size(); ++place) {
    const auto index = index_on(map.places[place], brick);
    if (!index) continue;
    const MapReplica& old = map.places[place].replicas[*index];
    if (old.leaving) {
      if (!index_on(map.places[place], to.brick))
        return refuse_set(why,
                          fmt::format("place {}: its copy on {} is moving to another brick already", place, brick));
      follow(map.places[place], plan);
      continue;
    }
    if (const auto no = objection(map.places[place], &old, to))
      return refuse_set(why, fmt::format("place {}: {}", place, *no));
    move_copy(map, place, *index, to, volume, plan);
  }
  if (!plan.leaving.empty() || load_of(map, to.brick) > 0) return plan;
  return refuse_set(why, fmt::format("{} has no copy of this set", brick), ENOENT);
}

Status plan_move(SetMap& map, const std::string& brick, const std::string& fresh, std::string* why) {
  if (map.count_on(brick) == 0) return refuse_set(why, fmt::format("{} has no copy of this set", brick), ENOENT);
  if (map.count_on(fresh) > 0) return refuse_set(why, fmt::format("{} is another brick of this set", fresh));
  for (MapPlace& place : map.places) {
    for (MapReplica& replica : place.replicas) {
      if (brick_of(replica.source) != brick) continue;
      replica.source = fresh + replica.source.substr(brick.size());
      if (replica.domain == brick) replica.domain = fresh;
    }
  }
  return {};
}

Result<SetPlan> plan_drain(SetMap& map, const std::string& brick, const std::string& volume, std::string* why) {
  SetPlan plan;
  for (size_t place = 0; place < map.places.size(); ++place) {
    const auto index = index_on(map.places[place], brick);
    if (!index) continue;
    const MapReplica& old = map.places[place].replicas[*index];
    if (old.leaving && count_lasting(map.places[place]) >= map.wanted) {
      follow(map.places[place], plan);
      continue;
    }
    const auto to = choose(map, bricks_of(map), map.places[place], &old);
    if (!to) {
      return refuse_set(why,
                        fmt::format("place {}: no other brick of the set can have its copy: all have one, or are in "
                                    "the domain of one; see `brickctl set replace`, or add a brick",
                                    place));
    }
    move_copy(map, place, *index, *to, volume, plan);
  }
  return plan;
}

Result<SetPlan> plan_rebalance(SetMap& map, const std::string& volume, std::string*) {
  SetPlan plan;
  for (const MapPlace& place : map.places) {
    if (has_leaving(place)) follow(place, plan);
  }
  const auto move_one = [&] {
    std::vector<NamedBrick> bricks = bricks_of(map);
    std::ranges::stable_sort(bricks, std::greater(),
                             [&](const NamedBrick& brick) { return load_of(map, brick.brick); });
    for (const NamedBrick& from : bricks) {
      for (size_t place = 0; place < map.places.size(); ++place) {
        const auto index = index_on(map.places[place], from.brick);
        if (!index || has_leaving(map.places[place])) continue;
        const auto to = choose(map, bricks, map.places[place], &map.places[place].replicas[*index]);
        if (!to || load_of(map, to->brick) + 2 > load_of(map, from.brick)) continue;
        move_copy(map, place, *index, *to, volume, plan);
        return true;
      }
    }
    return false;
  };
  while (move_one()) {
  }
  return plan;
}

Result<SetPlan> plan_add(SetMap& map, const std::vector<NamedBrick>& bricks, const std::string& volume,
                         std::string* why) {
  std::vector<NamedBrick> all = bricks_of(map);
  std::vector<NamedBrick> fresh;
  for (const NamedBrick& brick : bricks) {
    if (std::ranges::find(all, brick.brick, &NamedBrick::brick) != all.end()) continue;
    all.push_back(brick);
    fresh.push_back(brick);
  }
  SetPlan plan;
  for (const NamedBrick& brick : fresh) {
    if (map.places.size() >= limits::kBricksPerSet)
      return refuse_set(why, fmt::format("a set has at most {} places", limits::kBricksPerSet));
    map.places.emplace_back().added = map.generation + 1;
    for (uint64_t copy = 0; copy < map.wanted; ++copy) {
      const auto to = copy == 0 ? std::optional(brick) : choose(map, all, map.places.back(), nullptr);
      if (!to) return refuse_set(why, fmt::format("{} copies need bricks in {} domains", map.wanted, map.wanted));
      MapReplica replica = new_replica(map, *to, volume);
      replica.state = ReplicaState::kInSync;  // there is nothing in it
      plan.fresh.push_back(replica.id);
      map.places.back().replicas.push_back(std::move(replica));
    }
  }
  return plan;
}

}  // namespace brickfs
