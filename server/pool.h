// SPDX-License-Identifier: Apache-2.0
// The brick's memory: frames of one block each in one memfd, of huge pages if the machine has enough of them free, else
// of normal ones. Populated as it is used; frames that were freed and are many more than needed soon go back to the
// system.
//
// Threads: take() and give_back() under the owner's lock; a frame's bytes, clear() and discard() belong to who took it.
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
#include "transport/base/unique_fd.h"
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
  uint32_t free_frames() const { return free_.count(); }

  // A free frame, `wanted` if it can be. Its bytes are anything: clear() it or overwrite all of it.
  std::optional<uint32_t> take(uint32_t wanted);
  void give_back(uint32_t frame);

  std::span<std::byte> bytes(uint32_t frame) const { return {memory_ + frame * kBlockBytes, kBlockBytes}; }
  // Makes a taken frame zeros; costs nothing for one that was never used.
  void clear(uint32_t frame);
  // The same for a caller that overwrites all of it.
  std::span<std::byte> bytes_to_fill(uint32_t frame) {
    used_[frame] = 1;
    return bytes(frame);
  }
  // Before give_back(): gives the frame's memory to the system if enough free ones are populated already.
  void discard(uint32_t frame);

 private:
  Pool(UniqueFd fd, std::byte* memory, uint32_t frames);

  const UniqueFd fd_;
  std::byte* const memory_;
  std::vector<uint8_t> used_;                // by frame: may hold something other than zeros; whoever took it writes it
  std::atomic<uint32_t> populated_free_{0};  // free frames that are used_
  FreeRuns free_;                            // guarded by the owner
};

}  // namespace brickfs
