// SPDX-License-Identifier: Apache-2.0
#include "server/service/notice_board.h"

#include <algorithm>

#include "transport/base/random.h"
#include "transport/brick/limits.h"

namespace brickfs {

// No two countings have the same origin: not two of this board, and not those of two runs of a brick.
NoticeBoard::NoticeBoard() : next_origin_(random_id<uint64_t>()) {}

calls::Notice NoticeBoard::notice_of(uint64_t tag) const {
  const auto entry = entries_.find(tag);
  return entry == entries_.end() ? calls::Notice() : entry->second.notice;
}

bool NoticeBoard::is_news(std::span<const calls::Seen> seen) const {
  return std::ranges::any_of(seen, [&](const calls::Seen& one) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const calls::Notice now = notice_of(one.tag);
    return now.origin != one.origin || now.count != one.count;
  });
}

void NoticeBoard::notify(uint64_t tag, uint64_t value) {
  MutexLock lock(mutex_);
  if (!entries_.contains(tag) && entries_.size() >= limits::kTagsPerVolume) forget_oldest();
  Entry& entry = entries_[tag];
  if (entry.notice.count == 0) {
    if (next_origin_ == 0) ++next_origin_;
    entry.notice.origin = next_origin_++;
  }
  ++entry.notice.count;
  entry.notice.value = value;
  entry.last = ++notified_;
  wake(tag);
}

// Who waits for it learns that it may have missed something.
void NoticeBoard::forget_oldest() {
  const auto oldest = std::ranges::min_element(entries_, {}, [](const auto& tagged) { return tagged.second.last; });
  const uint64_t tag = oldest->first;
  entries_.erase(oldest);
  wake(tag);
}

void NoticeBoard::wake(uint64_t tag) {
  const auto waiting = waiting_.find(tag);
  if (waiting == waiting_.end()) return;
  for (Waiter* waiter : waiting->second) waiter->woken.notify_one();
}

void NoticeBoard::wake_all() {
  MutexLock lock(mutex_);
  for (const auto& [tag, waiters] : waiting_) {
    for (Waiter* waiter : waiters) waiter->woken.notify_one();
  }
}

std::vector<calls::Notice> NoticeBoard::wait(std::span<const calls::Seen> seen, Time until,
                                             const std::atomic<bool>& given_up) {
  Waiter self;
  MutexLock lock(mutex_);
  for (const calls::Seen& one : seen) waiting_[one.tag].push_back(&self);
  while (!is_news(seen) && !given_up.load()) {
    if (!self.woken.wait_until(lock, until)) break;
  }
  std::vector<calls::Notice> notices;
  for (const calls::Seen& one : seen) {
    notices.push_back(notice_of(one.tag));
    const auto waiting = waiting_.find(one.tag);
    if (waiting == waiting_.end()) continue;  // named twice
    std::erase(waiting->second, &self);
    if (waiting->second.empty()) waiting_.erase(waiting);
  }
  return notices;
}

}  // namespace brickfs
