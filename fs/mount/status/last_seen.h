// SPDX-License-Identifier: Apache-2.0
// What this host remembers of a durable volume that it had mounted: how far its journal was when that mount ended. A
// store that is an older copy of itself has nothing in it that tells so; what it says then is less than what was seen.
//
// Kept in brickfs/volumes below $XDG_STATE_HOME (not set: /var/lib for root, ~/.local/state for others), one file for
// each volume, named by its uuid, for a year. Who cannot keep it goes without. Any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

namespace brickfs {

struct LastSeen {
  uint64_t transaction = 0;  // the last one; numbers only grow
  time_t at = 0;             // when it was kept
};

// Nothing: it was never kept here, or is no more.
std::optional<LastSeen> read_last_seen(const std::string& uuid);
// As of now. Instead of what there is, as a whole.
void keep_last_seen(const std::string& uuid, uint64_t transaction);

}  // namespace brickfs
