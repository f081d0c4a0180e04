// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a flag, so that a command ends its work in order.
#pragma once

namespace brickfs {

// The first such signal from now on only sets the flag; the second ends the process.
void catch_interrupts();
bool interrupted();

}  // namespace brickfs
