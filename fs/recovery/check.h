// SPDX-License-Identifier: Apache-2.0
// Verifies a whole file system: reads it as a mount would, then proves that the tree hangs together. Changes nothing;
// what a mount would settle (a journal to replay, unlinked files, leaked blocks) is noted and not held against it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "fs/base/finding.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

struct CheckReport {
  bool has_filesystem = false;  // false: nothing was ever made on the volume, the first mount will
  Findings findings;
  absl::flat_hash_map<uint64_t, std::string> paths;  // of the inodes in the findings kept, where there is one
  bool unmounted = false;  // the last mount ended in order and should have left nothing to settle
  std::string uuid;
  uint64_t inodes = 0;
  uint64_t blocks = 0;         // that the brick lists
  uint64_t used_units = 0;     // by files
  uint64_t leaked_blocks = 0;  // that nothing refers to; without the reserve that an orderly unmount keeps
  uint64_t orphans = 0;
  uint64_t transactions = 0;  // in the journal, on top of the checkpoint
};

// The volume must be readable (OpenMode::kExclusive or kReadOnly) and must not change meanwhile. Whatever is wrong with
// what it holds is in the report. Errors: the volume's; ENOTSUP: made by a newer brickfs; `why` then has one line for
// people.
Result<CheckReport> check_filesystem(VolumeSet& volume, const Progress& progress, std::string* why);

}  // namespace brickfs
