// SPDX-License-Identifier: Apache-2.0
// The map of a replicated set made again from what its copies say of themselves, where etcd has lost it, or has an
// older one (docs/sets.md, "When etcd is lost").
//
// The newest mark of a place is believed: who leaves a copy out marks the others, who brings one back marks it behind
// all that it gets. Of several that have it all are in sync only if the volume was unmounted to the end and not mounted
// since; else they may differ, and one is, from which the others are copied.
//
// Threads: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/brick/brick.h"
#include "transport/membership/set_map.h"
#include "transport/volume/set_membership.h"

namespace brickfs {

// A volume that is a copy.
struct FoundCopy {
  std::string source;
  size_t place = 0;
  ReplicaMark mark;
  uint64_t blocks = 0;
  BootId boot{};
  Durability durability = Durability::kDurable;
  bool clean = false;      // of place 0: the file system was unmounted to the end
  uint64_t of_places = 0;  // of place 0: so many the set has at least, by its commit record; 0: it says nothing
};

struct RecoveredMap {
  SetMap map;
  std::vector<std::string> lines;  // what was found, and what follows, a line each
  bool is_needed = true;           // false: the map that there is says all that
};

// `known`: the map that etcd has, which may be old. `replicas`: copies of each place that are wanted; 0: as many as the
// known map says, or as were found of one place. EINVAL, ENODATA, with one line in `why`: copies of several sets, or
// none of some place.
Result<RecoveredMap> recover_map(const std::optional<SetMap>& known, const std::vector<FoundCopy>& found,
                                 uint64_t replicas, std::string* why);

}  // namespace brickfs
