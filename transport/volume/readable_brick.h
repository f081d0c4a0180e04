// SPDX-License-Identifier: Apache-2.0
// A brick from which others than the holder may read what he has written.
#pragma once

#include <string>

#include "transport/brick/calls.h"

namespace brickfs {

struct ReadableBrick {
  std::string source;  // of a replica, as the map has it; empty: the place's only brick
  // Of the holder's session. In another life of the brick he may be about to write again what it has lost.
  BootId boot{};
  Epoch epoch{};
};

}  // namespace brickfs
