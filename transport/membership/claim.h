// SPDX-License-Identifier: Apache-2.0
// How a client becomes the holder of a volume with copies, once it has opened their replicas: which it believes, and
// the change of the map by which it has the volume; and how it lets the volume go. Docs: docs/recovery.md,
// "Membership".
//
// **Which replicas are believed.** A client that let go left all in sync equal. Else those whose brick is in the boot
// that the map knows have all that was acknowledged, and differ in blocks with rows at most. A durable brick that has
// restarted since may lack what was not committed: it is brought up to date, unless all have restarted; then the first
// is what the volume is. A volatile brick that has restarted has nothing. Of a place that is not made there is nothing
// to lose. One whose mark is older than the map knows it to have been is of a store that was put back: it is brought up
// to date as a whole. If all of a place are, nothing is opened, unless that is accepted.
//
// **Other clients' leases.** With a replica left out here, the former holder, or a reader, may still be reading from
// it, until he misses that he is not confirmed by the others: nothing is acknowledged before limits::kLease has passed.
// A reader without some replica in sync looks at the map instead, again and again (Mirror::confirm()); he begins so
// only if the volume was let go.
//
// Threads: one, before the volume is served.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/membership/map_keeper.h"
#include "transport/membership/set_map.h"
#include "transport/membership/take_over.h"

namespace brickfs {

// A replica of the map, as who opens the volume finds it.
struct FoundReplica {
  size_t place = 0;
  MapReplica entry;
  std::optional<Session> session;  // none: it is not there, or is left out
  uint64_t mark = 0;               // the generation of its mark
  bool older = false;              // than it was: its store was put back
  bool lost = false;               // all that it had
  bool lost_tail = false;          // what was not committed, and is the best that there is
  bool noted = false;              // what it has missed, on all that are believed
  // What becomes of it.
  bool left_out = false;
  bool has_all = false;  // left out, of those that the last client let go
};
using FoundReplicas = std::span<FoundReplica* const>;

class Claim {
 public:
  // `map`: as it was loaded. `unclean`: the last client may have crashed. `accept_older`: a volume that is as it was
  // before is better than none.
  Claim(const SetMap& map, bool unclean, bool accept_older)
      : map_(map), unclean_(unclean), accept_older_(accept_older), lost_tail_(map.tail_lost) {}

  // Of the replicas of one place those stay in that are believed. EUCLEAN, ENODATA, EHOSTUNREACH: there is none, or
  // they do not go together; `why` has one line.
  Status choose(FoundReplicas replicas, std::string* why);
  // Some place has lost what was not committed.
  bool lost_tail() const { return lost_tail_; }
  // By one change of the map `self` has the volume, and those left out are. Then waits until no other client can be
  // reading from them: `fenced_at` is when the last one was. EAGAIN: the map has changed since it was loaded; others as
  // MapKeeper::change().
  Status make(MapKeeper& keeper, TakeOverNotice& notice, const MapHolder& self, FoundReplicas all,
              std::chrono::steady_clock::time_point fenced_at);

 private:
  Status leave_out_older(FoundReplicas replicas, std::string* why);
  Status leave_out_restarted(FoundReplicas there, std::string* why);

  const SetMap& map_;
  const bool unclean_;
  const bool accept_older_;
  bool lost_tail_;
};

// The end of a claim: whoever comes next has nothing to make equal. Precondition: all replicas in sync are equal, and
// nothing is written any more. `mark`: gives them all the mark of the generation of that moment, which is theirs alone,
// so that no store that was copied before has it; false: one has gone, and the volume is not let go. `edit`: what else
// the map is to know. A map that cannot be told is said in the log.
void let_go(MapKeeper& keeper, const std::function<bool()>& mark, const std::function<void(SetMap&)>& edit);

}  // namespace brickfs
