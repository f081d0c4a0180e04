// SPDX-License-Identifier: Apache-2.0
// The brick's memory: frames of one block each in one mapping. It is anonymous, of huge pages if the machine has enough
// of them free, else of normal ones, transparently huge where the kernel grants that; or memory that outlives this
// process (kept_memory.h).
//
// A machine's first touch of its memory, and to clear what was used, cost as much as the write that follows: a thread
// of the pool's does it ahead, and gives back to the system what nobody needs (free_frames.h).
//
// Threads: any. A frame's bytes, clear() and bytes_to_fill() belong to who took it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/store/free_frames.h"
#include "server/store/mapped_memory.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/brick/block.h"

namespace brickfs {

class Pool {
 public:
  // ENOMEM: not even address space.
  static Result<std::unique_ptr<Pool>> open(uint32_t frames, const FreeFrames::Upkeep& upkeep = {});
  // Of memory that is populated already, a block for each of `in_use`: those frames are taken. What is in the others
  // may be anything, unless `is_zero`. None of it ever goes back to the system.
  static std::unique_ptr<Pool> over(MappedMemory memory, const std::vector<bool>& in_use, bool is_zero,
                                    const FreeFrames::Upkeep& upkeep = {});
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  uint32_t frames() const { return static_cast<uint32_t>(content_.size()); }
  // Of memory that is its own: too few huge pages were free.
  bool has_normal_pages() const { return has_normal_pages_; }
  uint32_t free_frames() const ABSL_LOCKS_EXCLUDED(mutex_);

  // A free frame, `wanted` if none is better. Its bytes are anything: clear() it or overwrite all of it. Waits if the
  // pool's thread is at work on the last one.
  std::optional<uint32_t> take(uint32_t wanted) ABSL_LOCKS_EXCLUDED(mutex_);
  void give_back(uint32_t frame) ABSL_LOCKS_EXCLUDED(mutex_);

  std::span<std::byte> bytes(uint32_t frame) const { return memory_.bytes().subspan(frame * kBlockBytes, kBlockBytes); }
  // Makes a taken frame zeros, and populates it.
  void clear(uint32_t frame);
  // The same for a caller that overwrites all of it.
  std::span<std::byte> bytes_to_fill(uint32_t frame) {
    content_[frame] = Content::kUsed;
    return bytes(frame);
  }
  // All of it. Nothing goes back to the system any more: a device that holds a page would go on using it.
  std::span<std::byte> keep_memory() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Content = FreeFrames::Content;

  Pool(MappedMemory memory, FreeFrames free, bool has_normal_pages);
  void make_zero(FreeFrames::Frame frame) const;
  void run();
  void do_chore(const FreeFrames::Chore& chore) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void sleep(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wake_if_needed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MappedMemory memory_;
  const bool has_normal_pages_;
  std::vector<Content> content_;  // of frames that somebody has, who writes it

  mutable Mutex mutex_;
  CondVar changed_;  // for the pool's thread
  CondVar done_;     // by it
  FreeFrames free_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // the thread has a free frame in hand
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool will_look_ ABSL_GUARDED_BY(mutex_) = false;  // asleep, but not for ever
  Thread thread_{[this] { run(); }};
};

}  // namespace brickfs
