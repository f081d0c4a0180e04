// SPDX-License-Identifier: Apache-2.0
#include "fs/library/queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace brickfs::library {
namespace {

using std::chrono::steady_clock;

constexpr unsigned kMostDepth = 4096;

}  // namespace

Status check_queue(unsigned depth, unsigned flags) {
  if (depth == 0 || depth > kMostDepth || (flags & ~BRICKFS_QUEUE_BACKGROUND) != 0) return Error(EINVAL, "queue");
  return {};
}

Status Completions::start(bool background, size_t most) {
  {
    MutexLock lock(mutex_);
    ready_.reserve(most);
  }
  if (!background) return {};
  event_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return errno_error("eventfd");
  return {};
}

void Completions::add(brickfs_completion completion) { add(std::span<const brickfs_completion>(&completion, 1)); }

void Completions::add(std::span<const brickfs_completion> completions) {
  MutexLock lock(mutex_);
  const bool was_empty = ready_.size() == taken_;
  if (ready_.size() + completions.size() > ready_.capacity()) {  // there are never more than were reserved for
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<ptrdiff_t>(taken_));
    taken_ = 0;
  }
  ready_.insert(ready_.end(), completions.begin(), completions.end());
  if (event_ && was_empty) {
    const uint64_t one = 1;
    static_cast<void>(!write(event_.get(), &one, sizeof(one)));
  }
  if (wanted_ > 0 && ready_.size() - taken_ >= wanted_) added_.notify_one();  // within: the queue may go after
}

size_t Completions::take(std::span<brickfs_completion> out) {
  MutexLock lock(mutex_);
  const size_t count = std::min(out.size(), ready_.size() - taken_);
  std::copy_n(ready_.begin() + static_cast<ptrdiff_t>(taken_), count, out.begin());
  taken_ += count;
  if (taken_ < ready_.size()) return count;
  ready_.clear();
  taken_ = 0;
  uint64_t ignored = 0;
  if (event_ && count > 0) static_cast<void>(!read(event_.get(), &ignored, sizeof(ignored)));
  return count;
}

Status Completions::wait(size_t least, int timeout_ms, const Interruption* by) {
  const auto until = steady_clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  Status waited;
  MutexLock lock(mutex_);
  wanted_ = least;
  while (waited.ok() && ready_.size() - taken_ < least) {
    if (timeout_ms < 0) {
      waited = wait_interruptibly(added_, lock, by);
    } else if (!added_.wait_until(lock, until)) {
      break;
    }
  }
  wanted_ = 0;
  return waited;
}

}  // namespace brickfs::library

using namespace brickfs::library;

int brickfs_queue_free(brickfs_queue* queue) {
  return guarded([&] {
    delete queue;
    return 0;
  });
}

int brickfs_submit(brickfs_queue* queue, const brickfs_request* requests, unsigned count) {
  return guarded([&]() -> int {
    if (queue == nullptr || (requests == nullptr && count > 0)) return -EFAULT;
    const unsigned taken = std::min(count, queue->depth - queue->inside);
    for (unsigned i = 0; i < taken; ++i) {
      queue->submit(requests[i]);
      ++queue->inside;
    }
    queue->begin();
    return static_cast<int>(taken);
  });
}

int brickfs_poll(brickfs_queue* queue, brickfs_completion* completions, unsigned most, unsigned least, int timeout_ms) {
  return guarded([&]() -> int {
    if (queue == nullptr || (completions == nullptr && most > 0)) return -EFAULT;
    const int count = queue->poll({completions, most}, std::min({least, most, queue->inside}), timeout_ms);
    if (count > 0) queue->inside -= static_cast<unsigned>(count);
    return count;
  });
}

int brickfs_queue_descriptor(brickfs_queue* queue) {
  return guarded([&]() -> int {
    if (queue == nullptr) return -EFAULT;
    const int descriptor = queue->descriptor();
    return descriptor >= 0 ? descriptor : -EINVAL;
  });
}
