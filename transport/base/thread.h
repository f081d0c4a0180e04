// SPDX-License-Identifier: Apache-2.0
// The threads of the file system and of the volume client: with mutex.h, all by which they run side by side. A program
// that runs them as it likes (brickfs-crash) puts its own two headers in the place of these.
#pragma once

#include <thread>

namespace brickfs {

using Thread = std::thread;

}  // namespace brickfs
