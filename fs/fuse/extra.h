// SPDX-License-Identifier: Apache-2.0
// What the kernel's FUSE can do and libfuse 3.14 does not pass on: O_TMPFILE, birth times (statx), syncfs, and the
// kernel telling with each write and truncation whether set-uid and set-gid bits are to be cleared
// (FUSE_HANDLE_KILLPRIV_V2; without it the kernel asks for a file's capabilities before every write); and requests over
// io_uring (fs/fuse/ring.h). Source: include/uapi/linux/fuse.h of Linux 6.14.
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

// Of a volume that is lost for good (taken over; or its brick has lost it): nothing of it is told from memory any more,
// as programs would take that for what is there. True: the request has been refused. The root's attributes and
// statfs(2) are still told, and what the mount says of itself, so that it can be looked at and unmounted.
bool refuse_if_lost(FuseMount& mount, std::span<const std::byte> message);

// That a read or write is to move; of other requests none.
size_t data_bytes(std::span<const std::byte> message);

// Of a FUSE_INTERRUPT, the number of the request that it is about; of other requests 0.
uint64_t interrupted_request(std::span<const std::byte> message);
// The answer to it if that request is not at hand (yet): the kernel says it again, if it still is under way.
void send_again_later(FuseMount& mount, std::span<const std::byte> message);

// Sees the answer to the kernel's first request, FUSE_INIT, and asks for what libfuse does not know of.
class FuseInitAmendment {
 public:
  // Before the first request: io_uring is wanted, if the kernel has it.
  void want_rings() { wants_rings_ = true; }
  // Likewise: how long requests may take, in seconds. 0: as the kernel has it.
  void want_request_timeout(uint16_t seconds) { wanted_timeout_ = seconds; }
  void see_request(std::span<const std::byte> message);
  // True: this was the answer to it, now amended where the kernel offers it.
  bool amend_reply(std::span<const iovec> reply);
  // The kernel leaves clearing set-uid and set-gid bits, and capabilities, to us.
  bool kills_privileges() const { return kills_privileges_; }
  // The kernel waits for the entries of its rings.
  bool has_rings() const { return has_rings_; }

 private:
  uint64_t unique_ = 0;  // of the request
  bool wants_rings_ = false;
  uint16_t wanted_timeout_ = 0;
  bool offers_timeout_ = false;
  bool offers_killpriv_ = false;
  bool offers_rings_ = false;
  std::atomic<bool> kills_privileges_{false};
  std::atomic<bool> has_rings_{false};
};

}  // namespace brickfs
