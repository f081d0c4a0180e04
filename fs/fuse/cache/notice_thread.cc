// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/notice_thread.h"

#include <cerrno>
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

}  // namespace brickfs
