// SPDX-License-Identifier: Apache-2.0
// How a volume can be reached, by whoever uses it without touching its blocks: who serves requests, watches over a
// mount or ends it. Its blocks are the business of the file system alone, which has the whole VolumeSet.
//
// Errors: what fails says so itself; the state of all of it is final_error() and link_state().
// Threads: every call from any thread at once. None waits for a brick, nor for another machine.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/membership/set_map.h"
#include "transport/volume/link_state.h"
#include "transport/volume/volume_counters.h"

namespace brickfs {

// The map of a replicated volume, as this client knows it.
struct KnownMap {
  SetMap map;                                 // with its own changes, if it is the holder; else how it was
  std::vector<MemberId> absent;               // copies that are not there now, whatever the map says
  std::string trouble;                        // why the map does not answer, for people; empty: it does
  std::chrono::milliseconds troubled_for{0};  // that
};

class VolumeAccess {
 public:
  VolumeAccess() = default;
  virtual ~VolumeAccess() = default;
  VolumeAccess(const VolumeAccess&) = delete;
  VolumeAccess& operator=(const VolumeAccess&) = delete;

  // Of the first brick that is not connected.
  virtual LinkState link_state() const = 0;
  // Something that is needed does not answer; also a copy that has not been left out yet.
  virtual bool is_away() const = 0;
  // What every call is answered with from now on. ESTALE: another client has the volume; EIO: what it held is lost;
  // ECANCELED: interrupt(). Success: the volume is had, perhaps away.
  virtual Status final_error() const = 0;
  // Of all of it: volatile, if any part is.
  virtual Durability durability() const = 0;
  virtual LatencyCounts counts(VolumeCall call) const = 0;
  virtual std::optional<KnownMap> known_map() const = 0;  // nothing: the volume is not replicated

  // Transfers to and from this memory need no copy: its key goes into LocalSlice::local_key. The registration ends with
  // what it returns, which goes before this does, and behind the last transfer. ENOMEM and others: it cannot be had.
  virtual Result<RegisteredMemory> register_memory(std::span<std::byte> memory) = 0;

  // Sessions in which the other end has been silent for so long are given up, and begun anew: transfers end with them.
  virtual void give_up_silent(std::chrono::milliseconds silence) = 0;
  // Who waits for what is away is answered with EIO, as on a soft mount whose time is over.
  virtual void give_up_outage() = 0;
  // For good: whatever waits ends, and final_error() is ECANCELED, unless the volume was lost before.
  virtual void interrupt() = 0;
};

}  // namespace brickfs
