// SPDX-License-Identifier: Apache-2.0
#include "fs/base/range_lock.h"

#include <algorithm>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "transport/base/check.h"
#include "transport/base/mutex.h"

namespace brickfs {
namespace {

constexpr size_t kLockShards = 256;
constexpr size_t kSpare = 16;  // of a shard, kept for the next

}  // namespace

struct RangeLocks::Shard {
  struct Request {
    uint64_t id;
    uint64_t first_unit;
    uint64_t end_unit;
    Mode mode;
    bool granted = false;
    CondVar* waiter = nullptr;  // of the thread that waits for it

    bool conflicts_with(const Request& other) const {
      if (mode == Mode::kShared && other.mode == Mode::kShared) return false;
      return first_unit < other.end_unit && other.first_unit < end_unit;
    }
  };
  // In order of arrival. A request is granted once no earlier one, granted or waiting, conflicts with it.
  using Queue = std::list<Request>;

  static bool may_go(const Queue& queue, const Request& request) {
    for (const Request& earlier : queue) {
      if (&earlier == &request) return true;
      if (earlier.conflicts_with(request)) return false;
    }
    return true;
  }

  // Behind all others of the file. It stays where it is.
  Request& add(Queue& queue, const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (spare.empty()) spare.emplace_back();
    queue.splice(queue.end(), spare, spare.begin());
    return queue.back() = request;
  }
  void remove(Ino ino, uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  Mutex mutex;
  uint64_t next_id ABSL_GUARDED_BY(mutex) = 1;
  absl::flat_hash_map<Ino, Queue> files ABSL_GUARDED_BY(mutex);
  Queue spare ABSL_GUARDED_BY(mutex);  // nodes, so that a request need not take memory
};

RangeLocks::RangeLocks() : shards_(std::make_unique<Shard[]>(kLockShards)) {}
RangeLocks::~RangeLocks() = default;

RangeLocks::Hold RangeLocks::lock(Ino ino, uint64_t first_unit, uint64_t end_unit, Mode mode) {
  auto hold = lock(ino, first_unit, end_unit, mode, nullptr);
  CHECK(hold.ok());
  return std::move(*hold);
}

Result<RangeLocks::Hold> RangeLocks::lock(Ino ino, uint64_t first_unit, uint64_t end_unit, Mode mode,
                                          const Interruption* by) {
  Hold hold;
  Shard& shard = shards_[raw(ino) % kLockShards];
  CondVar granted;
  MutexLock lock(shard.mutex);
  const uint64_t id = shard.next_id++;
  // References into the map die when another file's queue is added; the list's node stays where it is.
  Shard::Queue& queue = shard.files[ino];
  Shard::Request& request = shard.add(queue, Shard::Request{id, first_unit, end_unit, mode});
  request.granted = Shard::may_go(queue, request);
  request.waiter = &granted;
  Status waited;
  while (!request.granted && waited.ok()) waited = wait_interruptibly(granted, lock, by);
  if (!request.granted) {
    shard.remove(ino, id);
    return waited.error();
  }
  request.waiter = nullptr;
  hold.locks_ = this;
  hold.ino_ = ino;
  hold.id_ = id;
  return hold;
}

std::optional<RangeLocks::Hold> RangeLocks::try_lock(Ino ino, uint64_t first_unit, uint64_t end_unit, Mode mode) {
  Shard& shard = shards_[raw(ino) % kLockShards];
  MutexLock lock(shard.mutex);
  const Shard::Request request{shard.next_id, first_unit, end_unit, mode, true};
  Shard::Queue& queue = shard.files[ino];
  for (const Shard::Request& earlier : queue) {
    if (earlier.conflicts_with(request)) return std::nullopt;
  }
  shard.add(queue, request);
  Hold hold;
  hold.locks_ = this;
  hold.ino_ = ino;
  hold.id_ = shard.next_id++;
  return hold;
}

void RangeLocks::unlock(Ino ino, uint64_t id) {
  Shard& shard = shards_[raw(ino) % kLockShards];
  MutexLock lock(shard.mutex);
  shard.remove(ino, id);
}

void RangeLocks::Shard::remove(Ino ino, uint64_t id) {
  const auto file = files.find(ino);
  CHECK(file != files.end());
  Shard::Queue& queue = file->second;
  const auto gone = std::find_if(queue.begin(), queue.end(), [id](const Request& one) { return one.id == id; });
  CHECK(gone != queue.end());
  spare.splice(spare.end(), queue, gone);
  if (spare.size() > kSpare) spare.pop_back();
  if (queue.empty()) {
    files.erase(file);
    return;
  }
  for (Shard::Request& request : queue) {
    if (request.granted || !Shard::may_go(queue, request)) continue;
    request.granted = true;
    request.waiter->notify_one();  // under the mutex: the waiter's stack holds the condition
  }
}

RangeLocks::Hold::Hold(Hold&& other) noexcept { *this = std::move(other); }

RangeLocks::Hold& RangeLocks::Hold::operator=(Hold&& other) noexcept {
  std::swap(locks_, other.locks_);
  std::swap(ino_, other.ino_);
  std::swap(id_, other.id_);
  return *this;
}

RangeLocks::Hold::~Hold() {
  if (locks_ != nullptr) locks_->unlock(ino_, id_);
}

}  // namespace brickfs
