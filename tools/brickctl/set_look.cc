// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_look.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "tools/brickctl/set.h"
#include "tools/brickctl/target.h"
#include "transport/base/size.h"
#include "transport/base/thread.h"

namespace brickfs {
namespace {

void add(SetVerdict& verdict, int code, std::string line) {
  verdict.exit_code = std::max(verdict.exit_code, code);
  verdict.lines.push_back(std::move(line));
}

void judge_place(const SetMap& map, size_t number, const ReplicaLooks& looks, SetVerdict& verdict) {
  const MapPlace& place = map.places[number];
  const uint64_t wanted = map.wanted;
  uint64_t in_sync = 0;
  uint64_t readable = 0;
  for (const MapReplica& replica : place.replicas) {
    if (replica.state != ReplicaState::kInSync) continue;
    const ReplicaLook& look = looks.at(replica.source);
    ++in_sync;
    const std::string refusal = describe_refusal(map, place, replica, look);
    if (!refusal.empty()) add(verdict, kSetDegraded, fmt::format("place {}: {} {}", number, replica.source, refusal));
    if (look.stat.ok() && refusal.empty() && !has_forgotten(place, replica, *look.stat)) ++readable;
  }
  if (readable == 0) {
    add(verdict, kSetBroken, fmt::format("place {}: no copy in sync can be had now", number));
  } else if (in_sync < wanted) {
    add(verdict, kSetDegraded, fmt::format("place {}: {} of {} copies are in sync", number, in_sync, wanted));
  } else if (readable < in_sync) {
    add(verdict, kSetDegraded,
        fmt::format("place {}: {} of {} copies in sync cannot be had now", number, in_sync - readable, in_sync));
  } else if (in_sync < place.replicas.size()) {
    verdict.notes.push_back(fmt::format("place {}: {} copies are in sync, as many as are wanted, and {} not yet",
                                        number, in_sync, place.replicas.size() - in_sync));
  }
  if (!place.made && map.holder && !map.holder->let_go)
    verdict.notes.push_back(
        fmt::format("place {}: not in use yet: a place is made when the volume is mounted", number));
}

Error refuse_room(std::string* why, const std::string& name, uint64_t free_blocks, uint64_t needed_blocks) {
  return refuse_set(why,
                    fmt::format("{} is too small: it has room for {}, and is to have {}", name,
                                about_size(free_blocks * kBlockBytes), about_size(needed_blocks * kBlockBytes)),
                    ENOSPC);
}

// Beside whoever holds it. Nothing: it has none, or the brick is too old to be asked for it.
std::optional<ReplicaMark> look_for_mark(const std::string& source, size_t place, const SecretFile& secret_file) {
  std::string silent;
  auto target = make_target(source, secret_file, &silent);
  if (!target.ok() || !open_session(*target, OpenMode::kFollow, &silent).ok()) return std::nullopt;
  const auto mark = read_replica_mark(*target->brick, place);
  static_cast<void>(target->brick->close());
  return mark.ok() ? *mark : std::nullopt;
}

std::vector<std::string> sources_of(const SetMap& map) {
  std::vector<std::string> sources;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) sources.push_back(replica.source);
  }
  return sources;
}

}  // namespace

ReplicaLooks look_at_all(const SetMap& map, const SecretFile& secret_file) {
  ReplicaLooks looks;
  std::map<std::string, size_t> place_of;
  for (size_t place = 0; place < map.places.size(); ++place) {
    for (const MapReplica& replica : map.places[place].replicas) {
      looks[replica.source];
      place_of[replica.source] = place;
    }
  }
  std::map<std::string, std::vector<ReplicaLooks::value_type*>> by_brick;
  for (auto& look : looks) by_brick[brick_of(look.first)].push_back(&look);
  std::vector<std::thread> threads;
  for (const auto& [brick, of_brick] : by_brick) {
    threads.push_back(Thread([&of_brick = of_brick, &place_of, &secret_file] {
      for (ReplicaLooks::value_type* one : of_brick) {
        ReplicaLook& look = one->second;
        look.stat = look_at_brick(one->first, secret_file, &look.why);
        if (look.stat.ok() && look.stat->volume_used_blocks > 0)
          look.mark = look_for_mark(one->first, place_of.at(one->first), secret_file);
      }
    }));
  }
  for (std::thread& thread : threads) thread.join();
  return looks;
}

ReplicaLooks look_at_all(MapStore& store, SetMap& map, const SecretFile& secret_file) {
  ReplicaLooks looks = look_at_all(map, secret_file);
  if (!is_outdated(map, looks)) return looks;
  auto later = store.load();
  if (!later.ok() || later->map.generation <= map.generation) return looks;
  const bool is_same = std::ranges::equal(sources_of(later->map), sources_of(map));
  map = std::move(later->map);
  return is_same ? looks : look_at_all(map, secret_file);
}

bool has_forgotten(const MapPlace& place, const MapReplica& replica, const BrickStat& stat) {
  if (!place.made || replica.state != ReplicaState::kInSync) return false;
  if (stat.volume_used_blocks == 0) return true;  // wiped: each copy of a place has its first block
  return stat.durability == Durability::kVolatile && replica.boot != BootId{} && replica.boot != stat.boot;
}

std::string describe_refusal(const SetMap& map, const MapPlace& place, const MapReplica& replica,
                             const ReplicaLook& look) {
  if (!look.mark || replica.state != ReplicaState::kInSync) return "";
  if (look.mark->set != map.set || look.mark->replica != replica.id) return "belongs to another volume";
  if (look.mark->generation > map.generation) {
    return fmt::format(
        "has seen generation {} of the map, which is at {}: etcd was restored from an old backup; see "
        "brickctl set recover",
        look.mark->generation, map.generation);
  }
  if (!place.made || look.mark->generation >= map.least_mark(replica)) return "";
  return fmt::format("is of an older store, of generation {} of the map, and was at {}", look.mark->generation,
                     map.least_mark(replica));
}

bool is_outdated(const SetMap& map, const ReplicaLooks& looks) {
  return std::ranges::any_of(looks, [&](const ReplicaLooks::value_type& look) {
    return look.second.mark && look.second.mark->set == map.set && look.second.mark->generation > map.generation;
  });
}

bool all_in_sync(const SetMap& map) {
  return std::ranges::all_of(map.places, [](const MapPlace& place) {
    return std::ranges::all_of(place.replicas,
                               [](const MapReplica& replica) { return replica.state == ReplicaState::kInSync; });
  });
}

Status check_is_none_of(const SetMap& map, const std::string& brick, const SecretFile& secret_file, std::string* why) {
  std::set<std::string> bricks;
  std::set<std::string> volumes;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) {
      const std::string& known = *bricks.insert(brick_of(replica.source)).first;
      volumes.insert(replica.source.substr(known.size() + 1));
    }
  }
  BootId boot{};
  for (const std::string& volume : volumes) {
    std::string silent;
    const auto stat = look_at_brick(brick + "/" + volume, secret_file, &silent);
    if (stat.ok()) boot = stat->boot;
    if (stat.ok() || stat.error().is(ENOENT)) continue;
    return refuse_set(why, fmt::format("the set has no brick {}, only {}; whether it is one of them by another name "
                                       "cannot be told: {}",
                                       brick, fmt::join(bricks, ", "), silent));
  }
  if (boot == BootId{}) return {};
  const ReplicaLooks looks = look_at_all(map, secret_file);
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) {
      const ReplicaLook& look = looks.at(replica.source);
      if ((look.stat.ok() ? look.stat->boot : replica.boot) != boot) continue;
      return refuse_set(
          why, fmt::format("the set has no brick {}: it is {}, by another name", brick, brick_of(replica.source)));
    }
  }
  return {};
}

Status check_room(const SetMap& map, const std::vector<MapReplica*>& fresh, const SecretFile& secret_file,
                  std::string* why) {
  if (fresh.empty()) return {};
  const ReplicaLooks looks = look_at_all(map, secret_file);
  struct Room {
    uint64_t needed_blocks = 0;
    uint64_t free_blocks = 0;
  };
  std::map<std::string, Room> rooms;  // by brick: its volumes share what is free
  for (const MapPlace& place : map.places) {
    uint64_t used_blocks = 0;
    for (const MapReplica& replica : place.replicas) {
      const ReplicaLook& look = looks.at(replica.source);
      if (look.stat.ok()) used_blocks = std::max(used_blocks, look.stat->volume_used_blocks);
    }
    for (const MapReplica& replica : place.replicas) {
      if (std::ranges::find(fresh, &replica) == fresh.end()) continue;
      const ReplicaLook& look = looks.at(replica.source);
      if (!look.stat.ok()) continue;
      if (used_blocks > look.stat->allocatable_blocks) {
        return refuse_room(why, replica.source, look.stat->allocatable_blocks, used_blocks);
      }
      Room& room = rooms[brick_of(replica.source)];
      room.needed_blocks += used_blocks;
      room.free_blocks = std::max(room.free_blocks, look.stat->allocatable_blocks);
    }
  }
  for (const auto& [brick, room] : rooms) {
    if (room.needed_blocks > room.free_blocks) return refuse_room(why, brick, room.free_blocks, room.needed_blocks);
  }
  return {};
}

SetVerdict judge_set(const SetMap& map, const ReplicaLooks& looks) {
  SetVerdict verdict;
  for (size_t i = 0; i < map.places.size(); ++i) judge_place(map, i, looks, verdict);
  if (is_outdated(map, looks)) {
    add(verdict, kSetBroken, "no mount takes the volume: the map is older than what its copies have seen");
  }
  return verdict;
}

}  // namespace brickfs
