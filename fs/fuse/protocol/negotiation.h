// SPDX-License-Identifier: Apache-2.0
// The kernel's first request, FUSE_INIT: what it offers, and what of that is taken.
//
// Threads: wants before the first request, then answer() once; the rest from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fs/fuse/protocol/protocol.h"
#include "transport/base/result.h"

namespace brickfs {

class FuseNegotiation {
 public:
  void want_writeback() { wants_writeback_ = true; }
  // io_uring, if the kernel has it.
  void want_uring() { wants_uring_ = true; }
  // Of a volume that other machines have, too: locks are asked of us, not kept by the kernel, and a file may be mapped
  // though its pages are not the kernel's to keep.
  void want_sharing() { wants_sharing_ = true; }
  // How long requests may take, in seconds. 0: as the kernel has it.
  void want_request_timeout(uint16_t seconds) { wanted_timeout_ = seconds; }

  // `arguments`: of FUSE_INIT. EPROTO: a kernel too old, or that is not what it is.
  Result<fuse_init_out> answer(std::span<const std::byte> arguments);
  // It has been made, and is on its way or has been sent.
  bool is_done() const { return done_; }
  // The kernel leaves clearing set-uid and set-gid bits, and capabilities, to us.
  bool kills_privileges() const { return kills_privileges_; }
  // With the write-back cache: who asks for an open file's attributes is about to write to it.
  bool only_writers_ask() const { return only_writers_ask_; }
  // Who waits for pages to be written back waits for our answer. Before Linux 6.16 it may be on its way still.
  bool waits_for_pages() const { return waits_for_pages_; }
  // It can be told to forget all names at once.
  bool has_epochs() const { return has_epochs_; }
  // Files whose reads and writes all come to us may be mapped shared all the same.
  bool maps_direct_files() const { return maps_direct_files_; }
  // The kernel waits for entries of io_uring.
  bool has_uring() const { return has_uring_; }

 private:
  uint64_t wanted_flags() const;

  bool wants_writeback_ = false;
  bool wants_uring_ = false;
  bool wants_sharing_ = false;
  uint16_t wanted_timeout_ = 0;
  std::atomic<bool> done_{false};
  std::atomic<bool> kills_privileges_{false};
  std::atomic<bool> only_writers_ask_{false};
  std::atomic<bool> waits_for_pages_{false};
  std::atomic<bool> has_epochs_{false};
  std::atomic<bool> maps_direct_files_{false};
  std::atomic<bool> has_uring_{false};
};

// How long the kernel lets a request take: sysctl fs.fuse.max_request_timeout and default_request_timeout (Linux 6.14
// and later). A mount of which a request takes longer is ended by the kernel. Source: fs/fuse/inode.c,
// init_server_timeout(), and fs/fuse/dev.c, fuse_check_timeout().
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
