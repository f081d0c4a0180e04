// SPDX-License-Identifier: Apache-2.0
// A file of the mount, as a program has shown it to us by an open descriptor. Only what is found out of it is kept, and
// not the descriptor: so a queue keeps no lock of a file, and no mount busy. An inode's number is never used twice, so
// a file that is gone is just not found any more.
#pragma once

#include <cstdint>
#include <string>

#include "fs/base/ids.h"
#include "fs/operations/file_operations.h"
#include "transport/base/result.h"

namespace brickfs {

struct ShownFile {
  Ino ino = kNoIno;
  bool reads = false;  // it was opened for that
  bool writes = false;
  bool appends = false;  // O_APPEND
  bool syncs = false;    // O_SYNC, O_DSYNC
  Touch touch = Touch::kAtime;
};

// What that descriptor is, if it is an open regular file of the mount with this device number ("MAJOR:MINOR"). Asks no
// file system but ours, which may wait: not on a thread that serves the kernel. EXDEV: of another file system; EINVAL:
// no regular file; EBADF: not open for reading or writing (O_PATH).
Result<ShownFile> inspect_file(int descriptor, const std::string& device_number);

}  // namespace brickfs
