// SPDX-License-Identifier: Apache-2.0
// `brickfs-crash store`: power losses of the real brick. docs/recovery.md, "The brick".
#pragma once

#include <cstdint>

namespace brickfs {

struct StoreArguments {
  uint64_t runs = 0;   // of clients; 0: until the time is up
  double seconds = 0;  // 0: until all runs are done
  uint64_t seed = 1;   // of the first run
  uint64_t jobs = 1;
  uint64_t failures = 5;
};

// The exit code.
int explore_store(const StoreArguments& arguments);

}  // namespace brickfs
