// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT. Before anything is mounted they end the process at once, which is as safe as a crash; after that
// they ask for a clean end. SIGHUP and SIGPIPE do nothing.
#pragma once

#include "transport/base/result.h"

namespace brickfs {

Status install_signals();
// From now on signals are only counted.
void defer_signals();
// Readable when a signal has come since the last take_signals().
int signals_fd();
void take_signals();

}  // namespace brickfs
