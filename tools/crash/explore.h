// SPDX-License-Identifier: Apache-2.0
// `brickfs-crash explore` and `brickfs-crash faults`: which sequences, by how many processes, and what is said of them.
// docs/recovery.md, "The crash explorer" and "Faults".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace brickfs {

struct ExploreArguments {
  size_t max_ops = 1;
  uint64_t samples = 0;
  double seconds = 0;
  uint64_t at_least = 0;  // states: fewer are a failure
  uint64_t seed = 1;
  uint64_t seeds = 1;  // for each sequence, from `seed` on
  uint64_t jobs = 1;
  uint64_t bricks = 1;  // of the set that the volume is on
  uint64_t copies = 1;  // of each of its places
  std::string sequence;
  uint64_t failures = 5;
  bool faults = false;  // of the brick, in the place of crashes
  uint64_t pairs = 0;   // of faults, for each sequence
};

// The exit code.
int explore(const ExploreArguments& arguments);

}  // namespace brickfs
