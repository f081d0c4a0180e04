// SPDX-License-Identifier: Apache-2.0
// `brickfs-crash kept`: memory that outlives a brick, killed behind each of its instructions. docs/recovery.md, "The
// brick".
#pragma once

#include <cstdint>

namespace brickfs {

struct KeptArguments {
  uint64_t runs = 0;   // histories; 0: until the time is up
  double seconds = 0;  // 0: until all runs are done
  uint64_t seed = 1;   // of the first run
  uint64_t jobs = 1;
  uint64_t failures = 5;
};

// The exit code; 77: the system lets nobody be stepped.
int explore_kept(const KeptArguments& arguments);

}  // namespace brickfs
