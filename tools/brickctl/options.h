// SPDX-License-Identifier: Apache-2.0
// What the measuring verbs of brickctl are told.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/base/bytes.h"

namespace brickfs {

struct BenchOptions {
  uint64_t transfer_bytes = 1 * kMiB;  // at most a block
  unsigned depth = 1;
  unsigned threads = 1;
  double seconds = 5;  // of each direction
  bool reads = true;
  bool writes = true;
  std::optional<uint64_t> span_bytes;  // of the volume, that is read and written over and over
  bool steal = false;
};

struct PingOptions {
  uint64_t count = 5;  // 0: until interrupted
  double interval_seconds = 0.2;
};

}  // namespace brickfs
