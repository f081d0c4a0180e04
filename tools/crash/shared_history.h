// SPDX-License-Identifier: Apache-2.0
// What programs on several machines were told of a shared volume, and what none of them may be told.
//
// What a thing shows is a number that grows with each change of its only writer. Nobody may see less than was known
// when he asked, nor what nobody has begun. What a coordinator has told its own programs may be lost with it: that
// counts only if it has kept the volume to the end. But also to those it tells nothing old when it has lost the volume.
//
// Threads: the simulated ones, which take turns.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/crash/fibers.h"

namespace brickfs::shared_world {

using fibers::Machine;

// Who is told something: a program of that machine, which has the tree itself, or had it first, or asks another.
struct Listener {
  Machine machine = 0;
  bool is_own = false;
};

class Known {
 public:
  uint64_t begin() { return ++begun_; }
  uint64_t begun() const { return begun_; }
  void learn(uint64_t value, const Listener& listener);

 private:
  friend class History;
  uint64_t begun_ = 0;
  uint64_t surely_ = 0;
  std::array<uint64_t, fibers::kMachines> by_own_{};  // known to programs of who has the tree
};

class History {
 public:
  // Before something is asked for.
  using Floor = Known;
  Floor floor(const Known& known) const { return known; }
  // `value` was seen by one who asked when `before` was known; of which `what`.
  void see(Known& known, const Floor& before, uint64_t value, const Listener& listener, const std::string& what);
  // Somebody has made that name, which nobody else can have made; or has got the lock, which nobody else can have.
  void has_made(const std::string& name, const Listener& listener);
  void has_locked(unsigned program, const Listener& listener);
  void unlocks(unsigned program);
  // What is in the file that all append to, as records of `programs` ("a000001\n").
  static constexpr size_t kRecordBytes = 8;
  static std::string record_of(unsigned program, uint64_t number);
  void see_records(std::string_view text, std::vector<Known>& known, const std::vector<Floor>& before,
                   const Listener& listener);

  // The machine has lost the volume, or is dead.
  void lost(Machine machine);
  void violation(const std::string& what);
  // The first one; also of what counts now that all is over. Empty: none.
  std::string verdict() const;

 private:
  struct Suspicion {
    std::vector<Machine> machines;
    std::string what;
  };
  void suspect(std::vector<Machine> machines, std::string what);
  std::vector<std::string> violations_;
  std::vector<Suspicion> suspicions_;  // violations if none of those machines has lost the volume
  std::set<Machine> lost_;
  std::map<std::string, Listener> makers_;
  std::map<unsigned, Machine> lockers_;
  std::string records_;  // as surely known
};

}  // namespace brickfs::shared_world
