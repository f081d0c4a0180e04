// SPDX-License-Identifier: Apache-2.0
// What a client that takes a volume with copies says in the map before it fences anybody, and what it has to know of
// the client before it. Docs: docs/recovery.md, "Membership".
//
// Threads: one, before the volume is served.
#pragma once

#include <string>
#include <utility>

#include "transport/base/result.h"
#include "transport/membership/map_keeper.h"
#include "transport/membership/set_map.h"

namespace brickfs {

// Who takes the volume with `steal` fences the bricks before he claims the map. Two who did so at once would fence each
// other, and none would have the volume. So they say it in the map first, of which one change alone comes to be.
class TakeOverNotice {
 public:
  TakeOverNotice(MapKeeper& keeper, MapTaker self) : keeper_(keeper), self_(std::move(self)) {}
  // For nothing: the next one need not wait.
  ~TakeOverNotice() {
    if (stands_) withdraw();
  }
  TakeOverNotice(const TakeOverNotice&) = delete;
  TakeOverNotice& operator=(const TakeOverNotice&) = delete;

  // Waits for another who is about to, until he has, or has died. EBUSY: he has, or the map goes on changing; others as
  // MapStore's. `why`: one line.
  Status put(std::string* why);
  // The claim has taken it out of the map.
  void claimed() { stands_ = false; }

 private:
  Status give_way(std::string* why);
  void withdraw();
  Status load(std::string* why);

  MapKeeper& keeper_;
  const MapTaker self_;
  bool stands_ = false;
};

// The former holder has not let go, and has left a copy out of the map, and may not know that yet: he may go on to read
// it, for as long as he counts on having the others. A lease that is free says that he had no connection when it was
// asked for, no more. So nothing is acknowledged before limits::kLease has passed from when he was fenced.
bool may_read_what_is_out(const SetMap& map, ClientId self);

}  // namespace brickfs
