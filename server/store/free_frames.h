// SPDX-License-Identifier: Apache-2.0
// Which frames of the pool are free, what their memory is like, and what is best done with it while nobody needs it:
// some are kept ready (populated and zero), and what was more than that for a while is cooled (its memory goes back to
// the system). Who does it takes a chore, does it, and adds the frame again.
//
// Threads: none of its own; the owner's lock guards it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/store/free_runs.h"

namespace brickfs {

class FreeFrames {
 public:
  using Clock = std::chrono::steady_clock;

  // What a frame's memory is like; best first.
  enum class Content : uint8_t {
    kReady,  // populated, zero
    kUsed,   // populated
    kCold,   // not populated, zero
  };
  struct Frame {
    uint32_t number;
    Content content;
  };
  // Of a frame that is taken until it is added again.
  struct Chore {
    Frame frame;
    Content becomes;
  };
  struct Upkeep {
    uint32_t ready = 512;                    // so many are kept ready; a quarter of all at most
    std::chrono::milliseconds quiet{200};    // so long after one was taken, at once if more than half of them are gone
    std::chrono::milliseconds keep{10'000};  // so long a surplus is kept that nobody needs
    bool cool = true;
  };

  // All free, and cold.
  FreeFrames(uint32_t frames, const Upkeep& upkeep);
  // Those that are not in use are free; what their memory is like.
  FreeFrames(const std::vector<bool>& in_use, Content content, const Upkeep& upkeep);

  uint32_t count() const;
  // The best there is, and `wanted` if that is among them, or the next of them above it, or the lowest. None: none is
  // free.
  std::optional<Frame> take(uint32_t wanted, Clock::time_point now);
  void add(Frame frame);

  // What to do now; no more than `most` frames are made ready.
  std::optional<Chore> next_chore(uint32_t most, Clock::time_point now);
  // When there may be something to do although none was taken or added.
  std::optional<Clock::time_point> next_look() const;
  // More than half of those kept ready are gone: there is something to do before next_look().
  bool runs_short() const;
  // From now on nothing is cooled.
  void keep_all() { upkeep_.cool = false; }

 private:
  FreeRuns& of(Content content) { return runs_[static_cast<size_t>(content)]; }
  uint32_t count_of(Content content) const { return runs_[static_cast<size_t>(content)].count(); }
  bool lacks() const;
  uint32_t surplus() const;
  std::optional<Chore> make_ready(Clock::time_point now);
  std::optional<Chore> cool(Clock::time_point now);

  Upkeep upkeep_;
  uint32_t left_alone_;  // while no more are free
  std::array<FreeRuns, 3> runs_;
  uint32_t wanted_ready_;
  uint32_t last_taken_ = 0;
  Clock::time_point taken_at_{};
  std::optional<Clock::time_point> surplus_since_;
  uint32_t least_surplus_ = 0;  // in that time: so many nobody needed
  uint32_t to_cool_ = 0;
};

}  // namespace brickfs
