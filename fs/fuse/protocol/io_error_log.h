// SPDX-License-Identifier: Apache-2.0
// Why a program was told EIO: it sees a number, the log says the rest. A line a second at most; the next one says how
// many there were meanwhile.
//
// Threads: any.
#pragma once

#include <cstdint>

#include "fs/base/ids.h"
#include "transport/base/result.h"

namespace brickfs {

// Of a request of this kind (FUSE's opcode) for that inode. Nothing is said of other errors: a program is told what
// they mean.
void log_io_error(uint32_t opcode, Ino ino, const Error& error);

}  // namespace brickfs
