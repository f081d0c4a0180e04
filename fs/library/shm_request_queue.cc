// SPDX-License-Identifier: Apache-2.0
// Requests of a ring, which the mount's process is at from the moment they are submitted. The thread that polls
// collects what is answered, and does what is left to the kernel; with BRICKFS_QUEUE_BACKGROUND one of the queue's own
// does.
#include <algorithm>
#include <chrono>
#include <optional>
#include <variant>

#include "fs/library/queue.h"
#include "fs/library/shm_queue.h"
#include "fs/library/signals_blocked.h"
#include "transport/base/thread.h"

namespace brickfs::library {
namespace {

using shm_queue::Client;
using shm_queue::Operation;

struct UnderWay {
  uint32_t slot;
  uint64_t user_data;
};

class ShmRequestQueue final : public brickfs_queue {
 public:
  ShmRequestQueue(brickfs_ring& ring, unsigned most) : brickfs_queue(ring.children, most), ring_(ring) {
    under_way_.reserve(most);
    done_.reserve(most);
  }
  ~ShmRequestQueue() override;
  Status start() { return {}; }

  void submit(const brickfs_request& request) override;
  int poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) override;
  int descriptor() const override { return -1; }

 private:
  void collect();

  brickfs_ring& ring_;
  std::vector<UnderWay> under_way_;
  std::vector<brickfs_completion> done_;  // and not polled
};

Result<Client::Request> prepare(brickfs_ring& ring, const brickfs_request& request) {
  if (request.file != nullptr || request.count != 0 || request.buffer != nullptr || request.reserved != 0)
    return Error(EINVAL, "request");
  if (request.operation < BRICKFS_READ || request.operation > BRICKFS_FSYNC) return Error(EINVAL, "operation");
  if (request.descriptor < 0 || request.descriptor > INT32_MAX) return Error(EBADF, "descriptor");
  static_assert(BRICKFS_READ == static_cast<int>(Operation::kRead) &&
                BRICKFS_WRITE == static_cast<int>(Operation::kWrite) &&
                BRICKFS_FSYNC == static_cast<int>(Operation::kFsync));
  return ring.request_for(static_cast<Operation>(request.operation), static_cast<int>(request.descriptor), request.data,
                          request.length, request.offset);
}

// What is under way then; or its completion. With all slots of the ring taken by others it is done at once, as by a
// call.
std::variant<UnderWay, brickfs_completion> begin_one(brickfs_ring& ring, const brickfs_request& request) {
  const auto prepared = prepare(ring, request);
  const auto slot = prepared.ok() ? ring.client->start(*prepared) : prepared.error();
  if (slot.ok()) return UnderWay{*slot, request.user_data};
  const bool is_full = prepared.ok() && slot.code() == EAGAIN;
  return brickfs_completion{request.user_data,
                            is_full ? count_of(ring.client->run(*prepared)) : int64_t{code_of(slot.error())}};
}

// Takes out of them what is done: done(completion).
template <typename Done>
void collect_done(brickfs_ring& ring, std::vector<UnderWay>& under_way, Done&& done) {
  std::erase_if(under_way, [&](const UnderWay& request) {
    const auto result = ring.client->poll(request.slot);
    if (result) done(brickfs_completion{request.user_data, count_of(*result)});
    return result.has_value();
  });
}

ShmRequestQueue::~ShmRequestQueue() {
  for (collect(); !under_way_.empty(); collect()) ring_.client->wait(under_way_.front().slot, 0, std::nullopt);
}

void ShmRequestQueue::submit(const brickfs_request& request) {
  const auto begun = begin_one(ring_, request);
  if (const auto* const one = std::get_if<UnderWay>(&begun)) return under_way_.push_back(*one);
  done_.push_back(std::get<brickfs_completion>(begun));
}

void ShmRequestQueue::collect() {
  collect_done(ring_, under_way_, [this](const brickfs_completion& completion) { done_.push_back(completion); });
}

int ShmRequestQueue::poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) {
  std::optional<Client::Clock::time_point> deadline;
  if (timeout_ms >= 0) deadline = Client::Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (bool goes_on = true; goes_on;) {
    const uint32_t seen = ring_.client->answers();
    collect();
    goes_on = done_.size() < least && ring_.client->wait(Client::kAnySlot, seen, deadline);
  }
  const size_t count = std::min(out.size(), done_.size());
  std::copy_n(done_.begin(), count, out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count));
  return static_cast<int>(count);
}

class BackgroundShmRequestQueue final : public brickfs_queue {
 public:
  BackgroundShmRequestQueue(brickfs_ring& ring, unsigned most) : brickfs_queue(ring.children, most), ring_(ring) {
    submitted_.reserve(most);
    under_way_.reserve(most);
  }
  ~BackgroundShmRequestQueue() override;
  Status start();

  void submit(const brickfs_request& request) override;
  int poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) override;
  int descriptor() const override { return done_.descriptor(); }

 private:
  void run();

  brickfs_ring& ring_;
  Completions done_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<UnderWay> submitted_ ABSL_GUARDED_BY(mutex_);  // and not the thread's yet
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<UnderWay> under_way_;  // the thread's
  Thread thread_;
};

Status BackgroundShmRequestQueue::start() {
  TRY(done_.start(true, depth));
  const SignalsBlocked blocked;
  thread_ = Thread([this] { run(); });
  return {};
}

BackgroundShmRequestQueue::~BackgroundShmRequestQueue() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void BackgroundShmRequestQueue::submit(const brickfs_request& request) {
  const auto begun = begin_one(ring_, request);
  const auto* const one = std::get_if<UnderWay>(&begun);
  if (one == nullptr) return done_.add(std::get<brickfs_completion>(begun));
  MutexLock lock(mutex_);
  submitted_.push_back(*one);
  changed_.notify_all();
}

// It is told of each answer. Of a request that is left to the kernel from the start there is none, so it looks again.
void BackgroundShmRequestQueue::run() {
  constexpr std::chrono::milliseconds kLook{20};
  for (;;) {
    const uint32_t seen = ring_.client->answers();
    {
      MutexLock lock(mutex_);
      while (under_way_.empty() && submitted_.empty() && !ends_) changed_.wait(lock);
      under_way_.insert(under_way_.end(), submitted_.begin(), submitted_.end());
      submitted_.clear();
    }
    if (under_way_.empty()) return;
    const size_t before = under_way_.size();
    collect_done(ring_, under_way_, [this](const brickfs_completion& completion) { done_.add(completion); });
    if (under_way_.size() == before) ring_.client->wait(Client::kAnySlot, seen, Client::Clock::now() + kLook);
  }
}

int BackgroundShmRequestQueue::poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) {
  if (least > 0) static_cast<void>(done_.wait(least, timeout_ms));
  return static_cast<int>(done_.take(out));
}

}  // namespace
}  // namespace brickfs::library

int brickfs_ring_queue(brickfs_ring* ring, unsigned depth, unsigned flags, brickfs_queue** queue) {
  using namespace brickfs::library;
  if (depth > brickfs::shm_queue::kSlots) return -EINVAL;
  if ((flags & BRICKFS_QUEUE_BACKGROUND) != 0)
    return open_queue(ring != nullptr, depth, flags, queue,
                      [&](bool) { return std::make_unique<BackgroundShmRequestQueue>(*ring, depth); });
  return open_queue(ring != nullptr, depth, flags, queue,
                    [&](bool) { return std::make_unique<ShmRequestQueue>(*ring, depth); });
}
