// SPDX-License-Identifier: Apache-2.0
#include "server/store/free_frames.h"

#include <algorithm>

namespace brickfs {
namespace {

// The last free frames are left alone: whoever takes them now may be evicting blocks for them.
constexpr uint32_t kLeftAlone = 64;

}  // namespace

FreeFrames::FreeFrames(uint32_t frames, const Upkeep& upkeep)
    : upkeep_(upkeep), left_alone_(std::min(frames / 16, kLeftAlone)) {
  upkeep_.ready = std::min(upkeep.ready, frames / 4);
  wanted_ready_ = upkeep_.ready;
  of(Content::kCold).add(0, frames);
}

FreeFrames::FreeFrames(const std::vector<bool>& in_use, Content content, const Upkeep& upkeep)
    : FreeFrames(static_cast<uint32_t>(in_use.size()), upkeep) {
  of(Content::kCold) = {};
  for (uint32_t frame = 0; frame < in_use.size(); ++frame) {
    if (!in_use[frame]) add({frame, content});
  }
}

uint32_t FreeFrames::count() const {
  return count_of(Content::kReady) + count_of(Content::kUsed) + count_of(Content::kCold);
}

std::optional<FreeFrames::Frame> FreeFrames::take(uint32_t wanted, Clock::time_point now) {
  for (const Content content : {Content::kReady, Content::kUsed, Content::kCold}) {
    const auto number = of(content).take(wanted);
    if (!number) continue;
    last_taken_ = *number;
    taken_at_ = now;
    least_surplus_ = std::min(least_surplus_, surplus());
    to_cool_ = std::min(to_cool_, least_surplus_);
    return Frame{*number, content};
  }
  return std::nullopt;
}

void FreeFrames::add(Frame frame) { of(frame.content).add(frame.number); }

bool FreeFrames::lacks() const {
  return count_of(Content::kReady) < wanted_ready_ && count() - count_of(Content::kReady) > 0 && count() > left_alone_;
}

bool FreeFrames::runs_short() const { return lacks() && count_of(Content::kReady) < wanted_ready_ / 2; }

uint32_t FreeFrames::surplus() const {
  const uint32_t populated = count_of(Content::kReady) + count_of(Content::kUsed);
  return populated - std::min(populated, upkeep_.ready);
}

std::optional<FreeFrames::Chore> FreeFrames::next_chore(uint32_t most, Clock::time_point now) {
  wanted_ready_ = std::min(upkeep_.ready, most);
  const auto chore = make_ready(now);
  return chore ? chore : cool(now);
}

std::optional<FreeFrames::Chore> FreeFrames::make_ready(Clock::time_point now) {
  if (!lacks() || (!runs_short() && now - taken_at_ < upkeep_.quiet)) return std::nullopt;
  for (const Content content : {Content::kUsed, Content::kCold}) {
    // Neighbours of what was taken are wanted next.
    if (const auto number = of(content).take(last_taken_)) return Chore{{*number, content}, Content::kReady};
  }
  return std::nullopt;
}

std::optional<FreeFrames::Chore> FreeFrames::cool(Clock::time_point now) {
  if (!upkeep_.cool || surplus() == 0) {
    surplus_since_.reset();
    return std::nullopt;
  }
  if (!surplus_since_) {
    surplus_since_ = now;
    least_surplus_ = surplus();
  } else if (now - *surplus_since_ >= upkeep_.keep) {
    to_cool_ = least_surplus_;
    surplus_since_ = now;
    least_surplus_ = surplus();
  }
  if (to_cool_ == 0) return std::nullopt;
  --to_cool_;
  for (const Content content : {Content::kUsed, Content::kReady}) {
    const auto number = of(content).take(0);
    if (!number) continue;
    least_surplus_ = std::min(least_surplus_, surplus());
    return Chore{{*number, content}, Content::kCold};
  }
  return std::nullopt;
}

std::optional<FreeFrames::Clock::time_point> FreeFrames::next_look() const {
  std::optional<Clock::time_point> look;
  if (surplus_since_) look = *surplus_since_ + upkeep_.keep;
  if (lacks()) look = std::min(look.value_or(Clock::time_point::max()), taken_at_ + upkeep_.quiet);
  return look;
}

}  // namespace brickfs
