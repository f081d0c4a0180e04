// SPDX-License-Identifier: Apache-2.0
// One run of `brickfs-crash shared`: machines that have one volume mounted, programs on them, and what happens to the
// machines and their links. docs/recovery.md, "Shared volumes".
#pragma once

#include <cstdint>
#include <string>

namespace brickfs {

struct SharedRun {
  uint64_t operations = 0;  // of programs
  uint64_t machines_lost = 0;
  std::string happened;  // to machines, in their order
  std::string failure;   // empty: all was as it should be
};

// In a process of its own: much of it ends with that.
SharedRun run_shared(uint64_t seed, unsigned seconds);

}  // namespace brickfs
