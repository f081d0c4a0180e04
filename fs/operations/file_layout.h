// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a file are, for who reads them from the bricks himself (fs/shared/member_data.h). It holds until
// the file is changed; whoever uses it sees to that he is told before.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/volume/readable_brick.h"

namespace brickfs {

struct FileLayout {
  // A run of bytes of the file that lies in one run of volume addresses; whole units.
  struct Part {
    uint64_t offset = 0;
    uint64_t address = 0;
    uint64_t length_bytes = 0;
  };
  // The bricks that have the addresses of a place, each all of them. None: they are read by who has the volume alone.
  struct Place {
    uint32_t place = 0;
    std::vector<ReadableBrick> bricks;
  };

  // What is told of: up to the end of the file, or as many parts as were asked for. What no part covers reads as zeros.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size_bytes = 0;    // of the file: bytes behind it are anything
  std::vector<Part> parts;    // ascending
  std::vector<Place> places;  // those that have parts
};

}  // namespace brickfs
