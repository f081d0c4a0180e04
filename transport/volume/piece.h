// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "transport/brick/brick.h"

namespace brickfs {

// `local` of a piece has any number of slices; the volume splits at blocks, handles and transfer limits.
struct Piece {
  uint64_t address = 0;           // volume address
  std::vector<LocalSlice> local;  // their total is the length; every touched block is allocated
};

}  // namespace brickfs
