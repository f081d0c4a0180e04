// SPDX-License-Identifier: Apache-2.0
// The map of a replicated set: which bricks have a copy of each place, and which of those copies may be read
// (docs/sets.md, "Copies"). It lives outside of the bricks, where it changes by compare-and-set (MapStore).
//
// A *replica* is a volume on a brick that has all blocks of one place. In sync: written and read. Syncing: written by
// the holder, which is bringing it up to date, and never read. Stale: neither; what it has is old.
//
// Threads: a SetMap has none of its own; a MapStore is called by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/calls.h"
#include "transport/membership/set_id.h"

namespace brickfs {

enum class ReplicaState : uint8_t { kInSync, kSyncing, kStale };
const char* name_of(ReplicaState state);

struct MapReplica {
  MemberId id{};
  std::string source;  // format_source(): of one brick, with the volume that it has for this place
  std::string domain;  // what may fail as one: a rack, a host; the brick's address, if nothing else was said
  ReplicaState state = ReplicaState::kStale;
  uint64_t since = 0;   // not in sync: since this generation. 0: never was
  BootId boot{};        // of the brick, when it was last known to have everything; 0: never
  uint64_t missed = 0;  // not in sync: the number of the dirty bitmap of what it has missed. 0: nobody knows
  uint64_t marked = 0;  // it has durably had a mark of this generation, so an older one is of an older store. 0: nobody
                        // knows of any
  bool leaving = false;  // to be dropped, as soon as there are as many others in sync as are wanted
  // Of what is being brought up to date; 0 of 0: nothing, or that has only begun.
  uint64_t copied_blocks = 0;
  uint64_t total_blocks = 0;
  std::string trouble;  // not in sync: why it could not be brought up to date last, for people; empty: nothing is known
  bool operator==(const MapReplica&) const = default;
};

struct MapPlace {
  std::vector<MapReplica> replicas;  // in the order in which they are preferred
  bool made = false;                 // those in sync have their marks, and so does each that comes to be
  uint64_t added = 0;                // the generation by which it came to the set; 0: it is one of the first
  bool operator==(const MapPlace&) const = default;
};

// The client that has the volume, or had it last.
struct MapHolder {
  ClientId client{};
  std::string name;     // for people
  uint64_t epoch = 0;   // the generation by which it became that
  bool let_go = false;  // it has ended cleanly: all replicas in sync are equal
  bool operator==(const MapHolder&) const = default;
};

// The client that is about to take the volume from its holder.
struct MapTaker {
  ClientId client{};
  std::string name;  // for people
  bool operator==(const MapTaker&) const = default;
};

struct SetMap {
  SetId set{};
  uint64_t generation = 0;  // grows with each change
  uint64_t wanted = 0;      // replicas of each place
  // Some place has lost what was not committed, and the volume's journal still says more than its commit record.
  bool tail_lost = false;
  // A mount left a replica out that a client before it may still read, and has not waited yet until no such client can.
  bool lease_wait = false;
  std::optional<MapHolder> holder;
  std::optional<MapTaker> taker;  // one at a time: who fences the bricks of another taker leaves neither of them any
  std::vector<MapPlace> places;

  bool operator==(const SetMap&) const = default;
  // Some place has fewer replicas in sync than are wanted.
  bool is_degraded() const;
  // Nobody who became the holder has known the place: nothing was ever done in its replicas, and nothing will be before
  // another client becomes it, from the map as it is then.
  bool is_untouched(const MapPlace& place) const;
  // What the mark of a replica in sync has at least, as long as that is what it was.
  uint64_t least_mark(const MapReplica& replica) const;
  // Replicas whose brick has that address ("tcp://a:20470"), over all places.
  size_t count_on(const std::string& brick) const;
};

// EUCLEAN, with one line in `why`: this is no map (no place, a replica twice, none in sync ...).
Status check_map(const SetMap& map, std::string* why);

constexpr size_t kTroubleBytes = 300;  // of a replica, at most

// Of another state from now on, and nothing copied yet. In sync: it has missed nothing.
void set_state(MapReplica& replica, ReplicaState state, uint64_t since);

// Places for bricks, as they were named: with as many bricks as replicas one place on all of them, else one place for
// each brick, with its further replicas on the next ones that are in other domains, so that what a lost brick had is
// spread over others. Names of volumes: `volume` for a brick's first place, `volume`.2 ... for those behind it.
// EINVAL, with one line in `why`: too few bricks, or domains.
struct NamedBrick {
  std::string brick;   // "tcp://a:20470", "rdma://a:20470,a2:20470"
  std::string domain;  // empty: itself
};
Result<std::vector<MapPlace>> plan_places(const std::vector<NamedBrick>& bricks, uint64_t replicas,
                                          const std::string& volume, std::string* why);

// Where the map is kept.
class MapStore {
 public:
  struct Stored {
    SetMap map;
    uint64_t version = 0;  // of the store; changes with each replace()
  };

  virtual ~MapStore() = default;
  // ENOENT: no such volume. EHOSTUNREACH, ETIMEDOUT: nobody answers. EACCES: refused. EPROTO, EUCLEAN: what is there is
  // no map. Within seconds.
  virtual Result<Stored> load() = 0;
  // Instead of that version; 0: there must be none. Returns the new version. EAGAIN: it is another one by now (EEXIST
  // with 0). As load(), and after EHOSTUNREACH and ETIMEDOUT it may have happened or not, now or later.
  virtual Result<uint64_t> replace(const SetMap& map, uint64_t version) = 0;
  // Why the last call failed, in one line for people.
  virtual std::string trouble() const = 0;
};

}  // namespace brickfs
