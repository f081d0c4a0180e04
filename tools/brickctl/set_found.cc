// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_found.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/brickctl/set.h"
#include "transport/etcd/set_map_json.h"

namespace brickfs {
namespace {

// Of the known map, or the only one that was found.
Result<SetId> set_of(const std::optional<SetMap>& known, const std::vector<FoundCopy>& found, std::string* why) {
  if (known) return known->set;
  if (found.empty()) return refuse_set(why, "none of these bricks has a copy of it", ENODATA);
  for (const FoundCopy& copy : found) {
    if (copy.mark.set == found[0].mark.set) continue;
    return refuse_set(why, fmt::format("{} is of the set {}, and {} of {}: name the bricks of one", found[0].source,
                                       format_id(found[0].mark.set), copy.source, format_id(copy.mark.set)));
  }
  return found[0].mark.set;
}

const FoundCopy* find_newest(const std::vector<FoundCopy>& found, size_t place) {
  const FoundCopy* newest = nullptr;
  for (const FoundCopy& copy : found) {
    if (copy.place == place && (newest == nullptr || copy.mark.generation > newest->mark.generation)) newest = &copy;
  }
  return newest;
}

MapReplica& entry_of(SetMap& map, const FoundCopy& copy) {
  auto& entries = map.places[copy.place].replicas;
  auto entry = std::ranges::find(entries, copy.mark.replica, &MapReplica::id);
  if (entry == entries.end()) {
    MapReplica fresh;
    fresh.id = copy.mark.replica;
    fresh.domain = brick_of(copy.source);
    entry = entries.insert(entries.end(), std::move(fresh));
  }
  entry->source = copy.source;
  return *entry;
}

// What those that are there are from now on; whether that is what the map said.
bool judge_place(SetMap& map, const std::vector<FoundCopy>& found, size_t place, bool clean,
                 std::vector<std::string>& lines) {
  bool as_it_was = true;
  const FoundCopy& newest = *find_newest(found, place);
  std::vector<MemberId> there;
  for (const FoundCopy& copy : found) {
    if (copy.place != place) continue;
    MapReplica& entry = entry_of(map, copy);
    there.push_back(entry.id);
    const bool is_newest = copy.mark.generation == newest.mark.generation;
    const bool believed = &copy == &newest || (is_newest && clean);
    const ReplicaState state = believed ? ReplicaState::kInSync : ReplicaState::kStale;
    as_it_was &= entry.state == state || entry.state != ReplicaState::kInSync;
    lines.push_back(fmt::format("place {}: {} is of generation {}, with {} blocks: {}", place, copy.source,
                                copy.mark.generation, copy.blocks,
                                believed    ? "it is believed"
                                : is_newest ? "it may differ, and is copied from the other"
                                            : "it is older, and is copied from the other"));
    set_state(entry, state, believed ? 0 : map.generation);
    entry.missed = 0;
    entry.boot = copy.boot;
    entry.marked = believed ? copy.mark.generation : 0;
  }
  for (MapReplica& entry : map.places[place].replicas) {
    if (std::ranges::find(there, entry.id) != there.end()) continue;
    lines.push_back(
        fmt::format("place {}: {} was not found: it is copied from the other when it is there", place, entry.source));
    as_it_was &= entry.state != ReplicaState::kInSync;
    set_state(entry, ReplicaState::kStale, map.generation);
    entry.missed = entry.marked = 0;
  }
  map.places[place].made = newest.mark.generation != kHasNothing;
  return as_it_was;
}

uint64_t most_of_a_place(const SetMap& map) {
  uint64_t most = 0;
  for (const MapPlace& place : map.places) most = std::max<uint64_t>(most, place.replicas.size());
  return std::min<uint64_t>(most, limits::kReplicas);
}

}  // namespace

Result<RecoveredMap> recover_map(const std::optional<SetMap>& known, const std::vector<FoundCopy>& all,
                                 uint64_t replicas, std::string* why) {
  const SetId set = TRY(set_of(known, all, why));
  RecoveredMap recovered;
  std::vector<FoundCopy> found;
  for (const FoundCopy& copy : all) {
    if (copy.mark.set == set) found.push_back(copy);
    if (copy.mark.set != set) recovered.lines.push_back(fmt::format("{} is of another set", copy.source));
  }
  SetMap& map = recovered.map;
  if (known) map = *known;
  map.set = set;
  uint64_t newest = map.generation;
  uint64_t places = map.places.size();
  for (const FoundCopy& copy : found) {
    newest = std::max(newest, copy.mark.generation);
    places = std::max({places, copy.place + 1, copy.of_places});
  }
  const bool map_is_old = !known || newest > known->generation;
  map.generation = newest + 1;
  map.places.resize(places);
  for (size_t place = 0; place < places; ++place) {
    if (find_newest(found, place) != nullptr) continue;
    return refuse_set(
        why, fmt::format("there is no copy of place {} of {}: name all bricks that have copies", place, places),
        ENODATA);
  }
  const FoundCopy& first = *find_newest(found, 0);
  bool as_it_was = true;
  for (size_t place = 0; place < places; ++place) {
    as_it_was &= judge_place(map, found, place, first.clean, recovered.lines);
  }
  map.wanted = replicas != 0 ? replicas : known ? known->wanted : most_of_a_place(map);
  // Who has it next settles what a holder may have left, and waits for readers.
  map.holder = first.clean ? std::nullopt : std::optional(MapHolder{ClientId{1}, "brickctl set recover", newest + 1});
  map.lease_wait = !first.clean;
  map.tail_lost = !first.clean && places > 1 && first.durability == Durability::kDurable;
  recovered.is_needed = map_is_old || !as_it_was;
  TRY(check_map(map, why));
  return recovered;
}

}  // namespace brickfs
