// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/locks.h"

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "fs/fuse/protocol/io_error_log.h"
#include "fs/fuse/protocol/protocol.h"

namespace brickfs {

void FuseLocks::note(const LockRequest& lock) {
  const MutexLock locked(mutex_);
  if (lock.owner.kind == LockKind::kRange) owners_.emplace(lock.ino, lock.owner.id);
  open_files_.insert(lock.open_file);
}

// Once more behind it: a file that was closed meanwhile may have been before it, and is noted no longer.
Status FuseLocks::set_noted(const LockRequest& lock, bool waits, const OperationContext& context) {
  if (lock.lock.mode == LockMode::kUnlocked) return files_.set_lock(lock, waits, context);
  note(lock);
  const Status set = files_.set_lock(lock, waits, context);
  note(lock);
  return set;
}

void FuseLocks::set(FuseRequest& request, const LockRequest& lock, bool waits) {
  if (waits && lock.lock.mode != LockMode::kUnlocked) return set_waiting(request, lock);
  request.answer(set_noted(lock, false, request.context()));
}

// It is among those that wait before anything is done: whatever signal comes finds it.
void FuseLocks::set_waiting(FuseRequest& request, const LockRequest& lock) {
  const uint64_t unique = request.header().unique;
  const auto waiting = std::make_shared<Waiting>();
  waiting->lock = lock;
  if (const Status begun = begin(unique, waiting); !begun.ok()) return (void)request.answer(begun);
  if (request.waiter().was_asked()) waiting->interruption.raise();
  const OperationContext context{.thread = request.header().pid, .interruption = &waiting->interruption};
  const Status set = set_noted(lock, false, context);
  if (set.code() != EAGAIN) {
    end(unique);
    return (void)request.answer(set);
  }
  waiting->answer = request.answer_later();
  if (start_thread(unique, *waiting).ok()) return;
  end(unique);
  waiting->answer(ENOLCK, {});
}

// The thread ends behind this.
Status FuseLocks::start_thread(uint64_t unique, Waiting& waiting) {
  const MutexLock locked(mutex_);
  try {
    waiting.thread = std::thread([this, unique, &waiting] { wait(unique, waiting); });
  } catch (const std::system_error& error) {
    return Error(error.code().value(), "a thread that waits for a lock");
  }
  return {};
}

Status FuseLocks::begin(uint64_t unique, const std::shared_ptr<Waiting>& waiting) {
  std::vector<std::shared_ptr<Waiting>> ended;
  {
    const MutexLock locked(mutex_);
    if (stopping_) return Error(EIO, "the mount ends");
    if (waiting_.size() >= kMostWaiting) return Error(ENOLCK, "too many wait for locks");
    waiting_[unique] = waiting;
    ended.swap(ended_);
  }
  for (const auto& each : ended) each->thread.join();
  return {};
}

void FuseLocks::end(uint64_t unique) {
  const MutexLock locked(mutex_);
  waiting_.erase(unique);
  changed_.notify_all();
}

// A request that was answered is unknown before another may have its number.
void FuseLocks::wait(uint64_t unique, Waiting& waiting) {
  Status set = set_noted(waiting.lock, true, {.interruption = &waiting.interruption});
  if (!set.ok()) log_io_error(FUSE_SETLKW, waiting.lock.ino, set.error());
  FuseRequest::Answer answer;
  {
    const MutexLock locked(mutex_);
    if (set.code() == EINTR && stopping_) set = Error(EIO, "the mount ends");
    answer = std::move(waiting.answer);
    const auto found = waiting_.find(unique);
    ended_.push_back(found->second);
    waiting_.erase(found);
    changed_.notify_all();
  }
  answer(set.code(), {});
}

bool FuseLocks::interrupt(uint64_t unique) {
  const MutexLock locked(mutex_);
  const auto found = waiting_.find(unique);
  if (found == waiting_.end()) return false;
  found->second->interruption.raise();
  return true;
}

Status FuseLocks::close(Ino ino, uint64_t owner, uint64_t open_file, const OperationContext& context) {
  {
    const MutexLock locked(mutex_);
    const bool may_have_some = owners_.erase({ino, owner}) > 0 || open_files_.contains(open_file);
    if (!may_have_some) return {};
  }
  return files_.close_locks(ino, {.machine = 0, .id = owner, .kind = LockKind::kRange}, open_file, context);
}

void FuseLocks::release(Ino ino, uint64_t open_file) {
  {
    const MutexLock locked(mutex_);
    if (open_files_.erase(open_file) == 0) return;
  }
  (void)files_.release_locks(ino, 0, open_file);
}

void FuseLocks::stop() {
  std::vector<std::shared_ptr<Waiting>> ended;
  {
    MutexLock locked(mutex_);
    stopping_ = true;
    for (const auto& [unique, waiting] : waiting_) waiting->interruption.raise();
    while (!waiting_.empty()) changed_.wait(locked);
    ended.swap(ended_);
  }
  for (const auto& each : ended) each->thread.join();
}

}  // namespace brickfs
