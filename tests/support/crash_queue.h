// SPDX-License-Identifier: Apache-2.0
// Asynchronous use of a mounted file system: requests of a queue of libbrickfs (fs/library/file_queue.cc), several
// under way at once.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "fs/library/open_fs.h"
#include "tests/support/crash_requests.h"

namespace brickfs {

class CrashQueue {
 public:
  static constexpr size_t kMost = 6;  // requests, in all its life
  // So that moments can be compared with those of a brick's log.
  using Tick = std::function<uint64_t()>;

  // `background`: what is submitted begins at once, on threads of the library; else with the wait for it, where it can.
  // The file system outlives this.
  CrashQueue(Filesystem& filesystem, bool background, Tick tick);
  ~CrashQueue();  // waits for all
  CrashQueue(const CrashQueue&) = delete;
  CrashQueue& operator=(const CrashQueue&) = delete;

  bool is_full() const { return requests_.size() == kMost; }
  // Ino and ticks are filled in here. The errno of the open: nothing is submitted.
  Status submit(const std::string& path, QueuedRequest request);
  // Until so many more have ended; at most all that are under way.
  void wait(size_t least);
  void wait_for_all() { wait(requests_.size()); }
  // In the order in which they were submitted.
  const std::deque<QueuedRequest>& requests() const { return requests_; }

 private:
  brickfs_fs fs_;  // the library's of that file system
  brickfs_queue* queue_ = nullptr;
  const Tick tick_;
  std::deque<QueuedRequest> requests_;  // which stay where they are
  std::vector<brickfs_file*> files_;    // of each
  size_t under_way_ = 0;
};

}  // namespace brickfs
