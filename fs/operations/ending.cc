// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/ending.h"

#include <fmt/core.h>

#include "transport/base/bytes.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCopyAway{5'000};     // a copy that is not left out within that cannot be
constexpr milliseconds kAway{1'000};         // not just changing from one session to the next
constexpr milliseconds kHurriedAway{3'000};  // told to end, with the brick away
constexpr milliseconds kHurried{25'000};     // told to end, in any case

}  // namespace

std::string describe(const Uncommitted& uncommitted) {
  if (uncommitted.operations == 0) return {};
  const std::string count =
      fmt::format("{} operation{}", uncommitted.operations, uncommitted.operations == 1 ? "" : "s");
  if (uncommitted.bytes == 0) return count;
  if (uncommitted.bytes < kMiB) return fmt::format("{} ({} KiB)", count, (uncommitted.bytes + kKiB - 1) / kKiB);
  return fmt::format("{} ({:.1f} MiB)", count, static_cast<double>(uncommitted.bytes) / static_cast<double>(kMiB));
}

void Ending::set_detached(bool detached) {
  MutexLock lock(mutex_);
  detached_ = detached;
}

void Ending::begin() {
  MutexLock lock(mutex_);
  began_ = true;
}

void Ending::hurry() {
  MutexLock lock(mutex_);
  if (!hurried_) hurried_ = Clock::now();
}

void Ending::check() {
  const LinkState::Kind link = files_.volume().link_state().kind;
  const bool copy_away = link == LinkState::Kind::kConnected && files_.volume().is_away();
  const Uncommitted uncommitted = files_.uncommitted();
  {
    MutexLock lock(mutex_);
    const auto now = Clock::now();
    if (!copy_away) copy_away_since_.reset();
    if (copy_away && !copy_away_since_) copy_away_since_ = now;
    const bool stuck = copy_away && now - *copy_away_since_ >= kCopyAway;
    const bool away = stuck || (link != LinkState::Kind::kConnected && link != LinkState::Kind::kFailed);
    if (!away) away_since_.reset();
    if (away && !away_since_) away_since_ = now;
    if (!began_ && !(detached_ && away)) progress_.reset();
    if (gave_up_ || !is_over(now, uncommitted)) return;
    gave_up_ = true;
    lost_ = describe(uncommitted);
    if (lost_.empty()) {
      log::warn("the brick does not answer: going without it; all that was written is committed");
    } else {
      log::error(
          "the brick does not answer: going without it; not committed, and lost as far as it has not reached the "
          "brick: {}",
          lost_);
    }
  }
  files_.volume().interrupt();
}

bool Ending::is_over(Clock::time_point now, const Uncommitted& uncommitted) {
  const bool away = away_since_ && now - *away_since_ >= kAway;
  if (hurried_ && now - *hurried_ >= (away ? kHurriedAway : kHurried)) return true;
  if (!began_ && !detached_) return false;
  const bool lingered_enough = lingered(now, uncommitted);
  if (!began_) return away && lingered_enough;
  if (uncommitted.operations == 0) return away;
  return lingered_enough;
}

// Without a commit for so long. A brick that comes and goes, or answers and cannot write, is no better than one that is
// away.
bool Ending::lingered(Clock::time_point now, const Uncommitted& uncommitted) {
  if (!progress_ || uncommitted.operations < operations_) progress_ = now;
  operations_ = uncommitted.operations;
  return now - *progress_ >= linger_;
}

bool Ending::began() const {
  MutexLock lock(mutex_);
  return began_;
}

bool Ending::gave_up() const {
  MutexLock lock(mutex_);
  return gave_up_;
}

std::string Ending::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

Status Ending::outcome(const Status& unmounted) const {
  MutexLock lock(mutex_);
  if (unmounted.ok() || !gave_up_) return unmounted;
  return lost_.empty() ? Status() : Error(ETIMEDOUT, "the brick does not answer");
}

}  // namespace brickfs
