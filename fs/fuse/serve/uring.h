// SPDX-License-Identifier: Apache-2.0
// FUSE over io_uring: whether the kernel has it, and one thread's end of it.
#pragma once

#include <liburing.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/fuse/serve/uring_request.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

// The switch of this host by which the kernel lets FUSE servers use io_uring: /sys/module/fuse/parameters/enable_uring,
// off by default. The kernel looks at it while a mount begins, and never again for that mount: so it is on only for so
// long. Who turns it on has a lock on it, lest another mount take it for the administrator's setting, or put it back
// too early.
class UringSwitch {
 public:
  // Why the kernel may not, as a line for people with what to do about it; nothing if it may, as long as this lives.
  // `turn_on`: where the kernel can but may not, allows it (as root). Waits for other mounts that begin.
  std::optional<std::string> obstacle(bool turn_on);
  // A mount has begun, or will not: puts back what was changed, unless somebody else has changed it since.
  void done();
  // It was off and is on now, for this mount.
  bool turned_on() const { return turned_on_; }
  ~UringSwitch() { done(); }

  UringSwitch() = default;
  UringSwitch(const UringSwitch&) = delete;
  UringSwitch& operator=(const UringSwitch&) = delete;

 private:
  UniqueFd locked_;
  bool turned_on_ = false;
};

// One thread's end of FUSE over io_uring: hands the answers of its entries over and waits for requests, both in one
// system call. An entry may change its FuseUring between a request and the answer to it: the kernel puts the next
// request where the answer came from.
//
// Threads: made by any; then one uses it, except as said.
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

// For a new entry of a CPU's queue (fs/fuse/serve/uring_request.h). The kernel gives it only what is requested from
// then on: a request that has been waiting for an entry goes to the one whose request was answered last. So brickfs
// makes a request of its own there, which needs no brick. docs/decisions, 46.
//
// Waits for nothing: the request is made by a process that nobody knows of any more. At worst it waits with the others
// until one of them is answered, or the connection ends. Best effort: the CPU may not be for this process.
void kick_uring(const std::string& mountpoint, size_t cpu);

}  // namespace brickfs
