// SPDX-License-Identifier: Apache-2.0
// Changes of a replicated set, as edits of its map: a replica to come is added as stale, and the one that it takes the
// place of is said to leave. The holder does the rest (transport/volume/mirror_repair.cc). Where a place is untouched
// (SetMap::is_untouched()) there is no rest: the new replica stands there instead of the old one, in sync. The map's
// compare-and-set keeps that from a client that makes the place at the same time: it claims the map first, and behind
// that the place is untouched no more. A plan that is made again finds what is in the map already.
//
// Threads: none of its own.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/membership/set_map.h"

namespace brickfs {

struct SetPlan {
  std::vector<MemberId> coming;   // replicas that take the place of others, new in the map or not
  std::vector<MemberId> leaving;  // those others
  std::vector<MemberId> fresh;    // new in the map: their volumes have to be empty
  size_t moved = 0;               // of those: in sync instead of others, with nothing to be copied
};

// All edit the map, which is to become that of the next generation. With one line in `why`: EINVAL. `volume`: as in
// plan_places().

// To `fresh` all that `brick` has. ENOENT: it has nothing.
Result<SetPlan> plan_replace(SetMap& map, const std::string& brick, const NamedBrick& fresh, const std::string& volume,
                             std::string* why);
// To the other bricks of the set, those first that have least.
Result<SetPlan> plan_drain(SetMap& map, const std::string& brick, const std::string& volume, std::string* why);
// From the bricks that have most to those that have least, at most one replica of each place.
Result<SetPlan> plan_rebalance(SetMap& map, const std::string& volume, std::string* why);
// A new place for each brick that begins none, with its further replicas on those that have least.
Result<SetPlan> plan_add(SetMap& map, const std::vector<NamedBrick>& bricks, const std::string& volume,
                         std::string* why);

// The copies that were on `brick` are on `fresh`, which is that brick by another name. ENOENT: it has nothing.
Status plan_move(SetMap& map, const std::string& brick, const std::string& fresh, std::string* why);

// The name by which the map has a brick, which is also known by each of its addresses: of "rdma://a:20470",
// "rdma://a:20470,a2:20470". As it is, if the map has none of that name and none with such an address.
std::string name_in_map(const SetMap& map, const std::string& brick);
// Replicas on a brick that do not leave.
size_t load_of(const SetMap& map, const std::string& brick);
const MapReplica* find_replica(const SetMap& map, const MemberId& id);

}  // namespace brickfs
