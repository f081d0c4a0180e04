// SPDX-License-Identifier: Apache-2.0
// The kernel's first request, FUSE_INIT: what it offers, and what of that is taken.
//
// Threads: wants before the first request, then answer() once; the rest from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/fuse/protocol/protocol.h"
#include "transport/base/result.h"

namespace brickfs {

class FuseNegotiation {
 public:
  void want_writeback() { wants_writeback_ = true; }
  // io_uring, if the kernel has it.
  void want_uring() { wants_uring_ = true; }
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
  // The kernel waits for entries of io_uring.
  bool has_uring() const { return has_uring_; }

 private:
  uint64_t wanted_flags() const;

  bool wants_writeback_ = false;
  bool wants_uring_ = false;
  uint16_t wanted_timeout_ = 0;
  std::atomic<bool> done_{false};
  std::atomic<bool> kills_privileges_{false};
  std::atomic<bool> only_writers_ask_{false};
  std::atomic<bool> waits_for_pages_{false};
  std::atomic<bool> has_uring_{false};
};

}  // namespace brickfs
