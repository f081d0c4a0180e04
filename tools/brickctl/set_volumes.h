// SPDX-License-Identifier: Apache-2.0
// The volumes of replicas that are to be, held so that nobody puts something there meanwhile. They have to be empty, on
// bricks of one durability; nothing is done in them.
//
// Threads: none of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/brickctl/commands.h"
#include "tools/brickctl/target.h"
#include "transport/etcd/etcd_map_store.h"
#include "transport/membership/set_map.h"

namespace brickfs {

class EmptyVolumes {
 public:
  explicit EmptyVolumes(const Command& command) : command_(command) {}
  ~EmptyVolumes();
  EmptyVolumes(const EmptyVolumes&) = delete;
  EmptyVolumes& operator=(const EmptyVolumes&) = delete;

  // Replicas that the set has: of their bricks are the others not the same, and all are of the first durability. Those
  // that do not answer are passed over.
  Status compare_with(const std::vector<const MapReplica*>& replicas, std::string* why);
  // That no other set of this etcd has one of them, by this name of its brick or by another.
  Status compare_with_others(EtcdMapStore& store, const std::vector<MapReplica*>& replicas, std::string* why);
  // Opens them, and fills in their boots. What is missing is made, if there is an administrator's secret. With one line
  // in `why`.
  Status open(const std::vector<MapReplica*>& replicas, std::string* why);

 private:
  Status look(MapReplica& replica, std::string* why);
  Status compare(const MapReplica& replica, const BrickStat& stat, std::string* why);
  Status hold(const MapReplica& replica, std::string* why);
  Status make_all(const std::vector<MapReplica*>& missing, std::string* why);

  const Command& command_;
  std::vector<Target> targets_;  // with a session
  std::map<BootId, std::string> bricks_;
  std::optional<std::pair<std::string, Durability>> first_;
};

}  // namespace brickfs
