// SPDX-License-Identifier: Apache-2.0
// `brickfs-crash shared`: machines with one volume, of which any may end, stop or be cut off at any moment.
// docs/recovery.md, "Shared volumes".
#pragma once

#include <cstdint>

namespace brickfs {

struct SharedArguments {
  uint64_t runs = 0;        // 0: until the time is up
  double seconds = 0;       // 0: until all runs are done
  uint64_t seed = 1;        // of the first run
  unsigned simulated = 40;  // seconds that something happens in each
  uint64_t jobs = 1;
  uint64_t failures = 5;
  uint64_t at_least = 0;  // runs: fewer are a failure
  bool verbose = false;
};

// The exit code.
int explore_shared(const SharedArguments& arguments);

}  // namespace brickfs
