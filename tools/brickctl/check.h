// SPDX-License-Identifier: Apache-2.0
// brickctl check: verifies the file system on a volume, tells what it found, and repairs it if asked to.
#pragma once

#include "tools/brickctl/commands.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// As fsck(8) has them.
constexpr int kCheckClean = 0;
constexpr int kCheckRepaired = 1;
constexpr int kCheckDamage = 4;
constexpr int kCheckFailed = 8;  // nothing is known: the volume cannot be read

// `volume` is open for reading (OpenMode::kReadOnly, so that nobody changes it meanwhile), or for writing if the
// command is to repair. Prints findings, repairs and a summary on standard output, failures and, on long runs, progress
// on standard error. Returns the exit code.
int run_check(VolumeSet& volume, const Command& command);

}  // namespace brickfs
