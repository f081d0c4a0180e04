// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/notices.h"

#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

namespace brickfs {

namespace {

Error cancelled() { return Error(ECANCELED, "no more notices are given"); }

}  // namespace

NoticeThread::~NoticeThread() { stop(); }

void NoticeThread::give(Notice notice, Done done, size_t most) {
  Job job{std::move(notice), std::move(done)};
  const Status added = add(job, most);
  if (!added.ok()) job.done(added);
}

Status NoticeThread::add(Job& job, size_t most) {
  MutexLock lock(mutex_);
  if (stopping_) return cancelled();
  if (jobs_.size() >= most) return Error(EAGAIN, "too many notices wait");
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  jobs_.push_back(std::move(job));
  wanted_.notify_one();
  return {};
}

void NoticeThread::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (jobs_.empty() && !stopping_) wanted_.wait(lock);
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.notice();
    job.done(Status());
    lock.lock();
  }
}

bool NoticeThread::is_stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void NoticeThread::stop() {
  std::deque<Job> undone;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    undone.swap(jobs_);
    wanted_.notify_all();
  }
  for (const Job& job : undone) job.done(cancelled());
  if (thread_.joinable()) thread_.join();
}

namespace {

constexpr std::chrono::milliseconds kLookForInterruption{50};

constexpr size_t kAny = std::numeric_limits<size_t>::max();

}  // namespace

struct PageWriter::Waited {
  Mutex mutex;
  CondVar changed;
  std::optional<Status> status ABSL_GUARDED_BY(mutex);
};

void PageWriter::run_later(std::function<void()> job) {
  thread_.give(
      std::move(job), [](const Status&) {}, kAny);
}

// Who has no patience any more leaves it to be done: the next finds it.
std::shared_ptr<PageWriter::Waited> PageWriter::want(Ino ino) {
  const auto waited = std::make_shared<Waited>();
  {
    MutexLock lock(mutex_);
    const auto [at, is_first] = wanted_.try_emplace(ino, waited);
    if (!is_first) return at->second;
  }
  const auto done = [this, ino, waited](const Status& status) {
    take(ino, waited);
    MutexLock lock(waited->mutex);
    waited->status = status;
    waited->changed.notify_all();
  };
  const auto write = [this, ino, waited] {
    take(ino, waited);
    notice_(ino);
  };
  thread_.give(write, done);
  return waited;
}

// What is written to the file from now on is not written back with it.
void PageWriter::take(Ino ino, const std::shared_ptr<Waited>& waited) {
  MutexLock lock(mutex_);
  const auto found = wanted_.find(ino);
  if (found != wanted_.end() && found->second == waited) wanted_.erase(found);
}

Status PageWriter::write_back(Ino ino, std::chrono::milliseconds patience, const Interruption* by) {
  const auto overdue = std::chrono::steady_clock::now() + patience;
  const auto waited = want(ino);
  MutexLock lock(waited->mutex);
  while (!waited->status) {
    TRY(Interruption::check(by));
    if (is_stopping()) return Error(ECANCELED, "no more is written back");
    if (std::chrono::steady_clock::now() >= overdue) return Error(ETIMEDOUT, "the kernel does not write back");
    waited->changed.wait_for(lock, kLookForInterruption);
  }
  return *waited->status;
}

}  // namespace brickfs
