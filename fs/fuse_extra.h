// SPDX-License-Identifier: Apache-2.0
// What the kernel's FUSE can do and libfuse 3.14 does not pass on: O_TMPFILE, birth times (statx), syncfs, and the
// kernel telling with each write and truncation whether set-uid and set-gid bits are to be cleared
// (FUSE_HANDLE_KILLPRIV_V2; without it the kernel asks for a file's capabilities before every write). Source:
// include/uapi/linux/fuse.h of Linux 6.6.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace brickfs {

class FuseMount;

// Looks at a request before libfuse does. True: it has been answered.
bool serve_extra_request(FuseMount& mount, std::span<const std::byte> message);

// Sees the answer to the kernel's first request, FUSE_INIT, and asks for what libfuse does not know of.
class FuseInitAmendment {
 public:
  void see_request(std::span<const std::byte> message);
  // True: this was the answer to it, now amended where the kernel offers it.
  bool amend_reply(std::span<const iovec> reply);
  // The kernel leaves clearing set-uid and set-gid bits, and capabilities, to us.
  bool kills_privileges() const { return kills_privileges_; }

 private:
  uint64_t unique_ = 0;  // of the request
  bool offered_ = false;
  std::atomic<bool> kills_privileges_{false};
};

}  // namespace brickfs
