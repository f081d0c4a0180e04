// SPDX-License-Identifier: Apache-2.0
// How a replicated set is: its map, and what its bricks say now.
#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/brickctl/options.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/membership/set_map.h"
#include "transport/volume/set_membership.h"

namespace brickfs {

constexpr int kSetDegraded = 3;
constexpr int kSetBroken = 4;

// What a replica's brick says of its volume, or why it says nothing.
struct ReplicaLook {
  Result<BrickStat> stat = Error(ENOTCONN, "a brick");
  std::string why;
  // Of a volume that says whose copy it is.
  std::optional<ReplicaMark> mark;
};
using ReplicaLooks = std::map<std::string, ReplicaLook>;  // by source

// One thread for each brick, so that those that do not answer are waited for together.
ReplicaLooks look_at_all(const SetMap& map, const SecretFile& secret_file);
// The same, of the map as it is behind that: its holder may change it meanwhile, and the bricks then know of a later
// one than was loaded before.
ReplicaLooks look_at_all(MapStore& store, SetMap& map, const SecretFile& secret_file);

// A brick that has everything no more, of a place that has something: it was wiped, or is volatile and has restarted.
bool has_forgotten(const MapPlace& place, const MapReplica& replica, const BrickStat& stat);
// In sync by the map, and no mount takes it for that: what is wrong with it. Empty: nothing that can be seen.
std::string describe_refusal(const SetMap& map, const MapPlace& place, const MapReplica& replica,
                             const ReplicaLook& look);
// Some copy has seen a later map than this one.
bool is_outdated(const SetMap& map, const ReplicaLooks& looks);
bool all_in_sync(const SetMap& map);

// That a brick without a copy by its name in the map is none of the set's by another: it is asked who it is. EINVAL,
// with one line in `why`, which names the bricks of the set: it is one of them, or does not say.
Status check_is_none_of(const SetMap& map, const std::string& brick, const SecretFile& secret_file, std::string* why);

// That replicas which are new in the map find room on their bricks for what the others of their places have. ENOSPC,
// with one line in `why`. Bricks that do not answer are not asked.
Status check_room(const SetMap& map, const std::vector<MapReplica*>& fresh, const SecretFile& secret_file,
                  std::string* why);

struct SetVerdict {
  int exit_code = EXIT_SUCCESS;    // or kSetDegraded, kSetBroken
  std::vector<std::string> lines;  // what is wrong
  std::vector<std::string> notes;  // what is still to come, where nothing is wrong
};
SetVerdict judge_set(const SetMap& map, const ReplicaLooks& looks);

}  // namespace brickfs
