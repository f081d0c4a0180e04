// SPDX-License-Identifier: Apache-2.0
// How long the kernel lets a request take: sysctl fs.fuse.max_request_timeout and default_request_timeout (Linux 6.14
// and later). A mount of which a request takes longer is ended by the kernel. Source: fs/fuse/inode.c,
// init_server_timeout(), and fs/fuse/dev.c, fuse_check_timeout().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace brickfs {

struct RequestLimit {
  // Of each request, from when a program made it. None: as long as it takes.
  std::optional<std::chrono::seconds> limit;
  // What to ask the kernel for in the answer to FUSE_INIT: the longest there is, where otherwise the default would
  // hold. 0: nothing.
  uint16_t ask_seconds = 0;

  // A brick may be away for so long; after that operations have to fail, so that each is answered within the limit:
  // also one that was on its way when the brick went silent, which takes kLease to be found out.
  std::optional<std::chrono::milliseconds> longest_outage() const;
};

// Of a mount that is made now: what is set later is for later mounts. `directory`: of the settings.
RequestLimit read_request_limit(const std::string& directory = "/proc/sys/fs/fuse");

}  // namespace brickfs
