// SPDX-License-Identifier: Apache-2.0
// Whether a device's type-2 memory windows do what isolation asks of them, found out by doing it.
#pragma once

#include <infiniband/verbs.h>

#include "transport/base/result.h"

namespace brickfs::verbs {

// Connects two queue pairs of the device with each other, binds a window and writes through it; is refused beyond the
// window, and after its invalidation. Success: all of that came about. Takes some milliseconds.
// Soft-RoCE (Linux 6.1) fails: it checks the bounds of the region behind a window, not the window's own.
Status try_windows(ibv_context* device);

}  // namespace brickfs::verbs
