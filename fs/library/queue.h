// SPDX-License-Identifier: Apache-2.0
// Many requests under way in one thread: of blocks (block_queue.cc) and of files (file_queue.cc).
//
// Threads: one at a time. What completes them may be any.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fs/library/brickfs.h"
#include "fs/library/call.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs::library {

// Completions from any thread, for the one that polls. `background`: with a descriptor.
class Completions {
 public:
  Status start(bool background, size_t most);  // at once
  // These two do not allocate.
  void add(brickfs_completion completion);
  void add(std::span<const brickfs_completion> completions);
  // Moves some of them to `out`.
  size_t take(std::span<brickfs_completion> out);
  // Until there are so many, or the time is over: below 0, for ever. EINTR.
  Status wait(size_t least, int timeout_ms, const Interruption* by = nullptr);
  int descriptor() const { return event_.get(); }

 private:
  UniqueFd event_;  // readable while there are any
  Mutex mutex_;
  CondVar added_;
  std::vector<brickfs_completion> ready_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;   // of these
  size_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;  // somebody waits for so many
};

}  // namespace brickfs::library

struct brickfs_queue {
  explicit brickfs_queue(brickfs::library::Children& of, unsigned most) : depth(most), owner(of) { owner.add(); }
  virtual ~brickfs_queue() { owner.remove(); }
  brickfs_queue(const brickfs_queue&) = delete;
  brickfs_queue& operator=(const brickfs_queue&) = delete;

  // Takes it; wrong arguments are a completion.
  virtual void submit(const brickfs_request& request) = 0;
  virtual int poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) = 0;
  virtual int descriptor() const = 0;  // below 0: none
  virtual void begin() {}              // what was submitted, behind the last of several

  const unsigned depth;
  unsigned inside = 0;  // submitted, and not polled

 private:
  brickfs::library::Children& owner;
};

namespace brickfs::library {

// EINVAL.
Status check_queue(unsigned depth, unsigned flags);

// Of the calls that make a queue. make(background): the queue, not started.
template <typename Make>
int open_queue(bool has_owner, unsigned depth, unsigned flags, brickfs_queue** queue, Make&& make) {
  return guarded([&]() -> int {
    if (!has_owner || queue == nullptr) return -EFAULT;
    if (const Status status = check_queue(depth, flags); !status.ok()) return code_of(status);
    auto made = make((flags & BRICKFS_QUEUE_BACKGROUND) != 0);
    if (const Status status = made->start(); !status.ok()) return code_of(status);
    *queue = made.release();
    return 0;
  });
}

}  // namespace brickfs::library
