// SPDX-License-Identifier: Apache-2.0
// Repairs a damaged file system: reads all that verifies, makes a sound tree of it in memory, writes that as a new
// checkpoint beside the old metadata, and only then lets go of the old. A crash or an error at any point leaves the
// volume as damaged as it was, or repaired. docs/recovery.md, "Repair", has what is done about which damage.
#pragma once

#include <string>

#include "fs/base/finding.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// `volume` is open for writing (OpenMode::kExclusive) and mounted by nobody. What was done. Errors: the volume's;
// EUCLEAN, ENOTSUP: it cannot be repaired, and nothing was changed; ENOSPC, EDQUOT: there is no room for the new
// checkpoint beside the old one. `why` then has one line for people.
Result<Findings> repair_filesystem(VolumeSet& volume, const Progress& progress, std::string* why);

}  // namespace brickfs
