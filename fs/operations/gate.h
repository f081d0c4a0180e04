// SPDX-License-Identifier: Apache-2.0
// The one gate before a mounted file system for whoever comes from outside: the kernel's requests, those of rings, and
// the calls of the library. Once the volume is lost, what is in memory is not the volume any more, and is told nobody.
#pragma once

#include "fs/operations/file_operations.h"
#include "transport/base/result.h"

namespace brickfs {

// What everything that is asked for is answered with instead of being done: VolumeAccess::final_error(), ESTALE if
// another has the volume. Success: it is served; also by a file system that ends, whose answers are its memory's as
// before.
Status gate(FileOperations& files);

}  // namespace brickfs
