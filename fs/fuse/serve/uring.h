// SPDX-License-Identifier: Apache-2.0
// One thread's end of FUSE over io_uring: hands the answers of its entries over and waits for requests, both in one
// system call. An entry may change its uring between a request and the answer to it: the kernel puts the next request
// where the answer came from.
//
// Threads: made by any; then one uses it, except as said.
#pragma once

#include <liburing.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "fs/fuse/serve/uring_request.h"
#include "transport/base/result.h"

namespace brickfs {

class FuseUring {
 public:
  // Of a connection: one for each CPU. The kernel takes requests this way once each has an entry.
  static size_t queues();

  // Has room for so many entries. `device` must outlive it; so must `stopped`, which becomes readable when nobody is to
  // wait any more. EPERM, ENOMEM, ENOSYS: no io_uring for this process.
  static Result<std::unique_ptr<FuseUring>> make(int device, int stopped, size_t entries);
  ~FuseUring();
  FuseUring(const FuseUring&) = delete;
  FuseUring& operator=(const FuseUring&) = delete;

  // Offers the entry to the kernel with the next receive(): a new one, or one whose request has been answered.
  Status offer(FuseUringRequest& entry);
  // What has been offered is at the kernel on return, not only with the next receive().
  Status hand_over();
  // Entries that are offered. From any thread.
  size_t offered() const { return offered_.load(std::memory_order_relaxed); }
  // Those that got a request, added to `requests`; `wait`: at least one. EINTR: it is stopped. ENOTCONN, ECANCELED ...:
  // the connection has ended, or, before the first request, the kernel will not have such entries: it then goes back to
  // /dev/fuse for all.
  Status receive(bool wait, std::vector<FuseUringRequest*>& requests);

 private:
  FuseUring(int device, int stopped) : device_(device), stopped_(stopped) {}
  Status begin(size_t entries);
  Status enable();

  const int device_;
  const int stopped_;
  io_uring uring_{};
  bool has_uring_ = false;
  bool enabled_ = false;
  bool is_stopped_ = false;
  std::atomic<size_t> offered_{0};
};

}  // namespace brickfs
