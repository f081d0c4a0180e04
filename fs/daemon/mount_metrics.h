// SPDX-License-Identifier: Apache-2.0
// A mount's state as numbers for Prometheus: docs/metrics.md has them all.
#pragma once

#include "fs/mount/status/mount_state.h"
#include "transport/metrics/metrics.h"

namespace brickfs {

void collect(const MountState& state, Metrics& metrics);

}  // namespace brickfs
