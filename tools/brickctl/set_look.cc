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
    if (look.stat.ok() && !has_forgotten(place, replica, *look.stat)) ++readable;
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

}  // namespace

ReplicaLooks look_at_all(const SetMap& map, const std::string& secret_file) {
  ReplicaLooks looks;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) looks[replica.source];
  }
  std::map<std::string, std::vector<ReplicaLooks::value_type*>> by_brick;
  for (auto& look : looks) by_brick[brick_of(look.first)].push_back(&look);
  std::vector<std::thread> threads;
  for (const auto& [brick, of_brick] : by_brick) {
    threads.push_back(Thread([&of_brick = of_brick, &secret_file] {
      for (ReplicaLooks::value_type* one : of_brick) {
        ReplicaLook& look = one->second;
        look.stat = look_at_brick(one->first, secret_file, &look.why);
      }
    }));
  }
  for (std::thread& thread : threads) thread.join();
  return looks;
}

bool has_forgotten(const MapPlace& place, const MapReplica& replica, const BrickStat& stat) {
  if (!place.made || replica.state != ReplicaState::kInSync) return false;
  if (stat.volume_used_blocks == 0) return true;  // wiped: each copy of a place has its first block
  return stat.durability == Durability::kVolatile && replica.boot != BootId{} && replica.boot != stat.boot;
}

bool all_in_sync(const SetMap& map) {
  return std::ranges::all_of(map.places, [](const MapPlace& place) {
    return std::ranges::all_of(place.replicas,
                               [](const MapReplica& replica) { return replica.state == ReplicaState::kInSync; });
  });
}

Status check_is_none_of(const SetMap& map, const std::string& brick, const std::string& secret_file, std::string* why) {
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

Status check_room(const SetMap& map, const std::vector<MapReplica*>& fresh, const std::string& secret_file,
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
  return verdict;
}

}  // namespace brickfs
