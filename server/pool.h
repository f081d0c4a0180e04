// SPDX-License-Identifier: Apache-2.0
// The brick's memory: frames of one block each in one anonymous mapping, of huge pages if the machine has enough of them
// free, else of normal ones, transparently huge where the kernel grants that. Populated as it is used, and a cushion ahead
// of that: a machine's first touch of its memory costs more than the write that meets it. Freed frames beyond the cushion
// give their memory back to the system.
//
// Threads: those marked so under the owner's lock; a frame's bytes, clear() and discard() belong to who took it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/free_runs.h"
#include "transport/base/result.h"
#include "transport/block.h"

namespace brickfs {

class Pool {
 public:
  // ENOMEM: not even address space.
  static Result<std::unique_ptr<Pool>> open(uint32_t frames);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  uint32_t frames() const { return static_cast<uint32_t>(used_.size()); }
  uint32_t free_frames() const { return free_.count(); }  // owner's lock

  // A free frame, `wanted` if it can be. Its bytes are anything: clear() it or overwrite all of it. Owner's lock.
  std::optional<uint32_t> take(uint32_t wanted);
  void give_back(uint32_t frame);  // owner's lock

  // The next free frame to populate ahead of its use; none if the cushion, at most `most` frames, is full. Owner's lock.
  std::optional<uint32_t> cold_frame(uint32_t most) const;
  // Whoever has the frame, its bytes stay.
  void populate(uint32_t frame) const;
  void note_populated(uint32_t frame);  // owner's lock

  std::span<std::byte> bytes(uint32_t frame) const { return {memory_ + frame * kBlockBytes, kBlockBytes}; }
  // Makes a taken frame zeros, and populates it.
  void clear(uint32_t frame);
  // The same for a caller that overwrites all of it.
  std::span<std::byte> bytes_to_fill(uint32_t frame) {
    used_[frame] = 1;
    return bytes(frame);
  }
  // All of it. discard() gives nothing back any more: a device that holds a page would go on using it.
  std::span<std::byte> keep_memory() {
    keeps_memory_.store(true, std::memory_order_relaxed);
    return {memory_, frames() * kBlockBytes};
  }
  // Before give_back(): gives the frame's memory to the system if the cushion is full.
  void discard(uint32_t frame);

 private:
  Pool(std::byte* memory, uint32_t frames);
  uint32_t cushion() const;

  std::byte* const memory_;
  std::vector<uint8_t> used_;                // by frame: may hold something other than zeros; whoever took it writes it
  std::atomic<uint32_t> populated_free_{0};  // free frames that are used_ or warm_
  std::atomic<bool> keeps_memory_{false};
  // Guarded by the owner.
  FreeRuns free_;
  std::vector<uint8_t> warm_;  // by frame: free, populated, zeros
  uint32_t last_taken_ = 0;
};

}  // namespace brickfs
