// SPDX-License-Identifier: Apache-2.0
// Compares the copies of a replicated set, byte for byte over all allocated blocks, but for what each copy has of its
// own in the first block of a place (transport/volume/replica_format.h).
//
// The set is open for reading (OpenMode::kReadOnly), so nobody writes to it meanwhile. Copies that are not in sync are
// left out, and so are those that are not there, which are named. After a crash of the last client the copies may
// differ in blocks with rows, and some may lack what was being allocated or freed: those blocks are passed over, and
// the next mount makes them equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/brick/block.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// A block of a copy that is not what the first copy of its place has.
struct ReplicaDifference {
  size_t place = 0;
  BlockAddress block{};
  uint64_t address = 0;  // of the first byte that differs
  uint64_t bytes = 0;    // of the block, that differ; 0: one of the two does not have the block
  std::string first;     // sources
  std::string other;
};

struct ReplicaComparison {
  static constexpr size_t kKept = 100;

  uint64_t blocks = 0;                         // that were compared
  uint64_t passed_over = 0;                    // that may differ
  uint64_t alone = 0;                          // places with one copy to be read, which was compared with none
  uint64_t differing = 0;                      // all of them
  std::vector<ReplicaDifference> differences;  // the first kKept
  std::vector<std::string> not_there;          // sources of copies in sync that could not be compared
};

struct CompareOptions {
  uint64_t bytes_per_second = 0;  // of the volume; 0: as fast as it goes
  Progress progress;
  std::function<bool()> stopped;  // ends it with EINTR; may be empty
};

// Errors as VolumeSet::read().
Result<ReplicaComparison> compare_replicas(VolumeSet& set, const CompareOptions& options);

}  // namespace brickfs
