// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/page_writer.h"

#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kLookForInterruption{50};

Status cancelled() { return Error(ECANCELED, "no more is written back"); }

}  // namespace

PageWriter::~PageWriter() { stop(); }

void PageWriter::add(Job job) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      jobs_.push_back(std::move(job));
      wanted_.notify_one();
      return;
    }
  }
  job.done(cancelled());
}

void PageWriter::run_later(std::function<void()> job) {
  add({std::move(job), [](const Status&) {}});
}

void PageWriter::write_back(Ino ino, Done done) {
  add({[this, ino] { notice_(ino); }, std::move(done)});
}

Status PageWriter::write_back(Ino ino, std::chrono::milliseconds patience, const Interruption* by) {
  const auto overdue = std::chrono::steady_clock::now() + patience;
  const auto is_done = std::make_shared<std::atomic<bool>>(false);
  write_back(ino, [is_done](const Status& status) { *is_done = status.ok(); });
  MutexLock lock(mutex_);
  while (!*is_done && !stopping_) {
    TRY(Interruption::check(by));
    if (std::chrono::steady_clock::now() >= overdue) return Error(ETIMEDOUT, "the kernel does not write back");
    done_.wait_for(lock, kLookForInterruption);
  }
  return *is_done ? Status() : cancelled();
}

void PageWriter::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (jobs_.empty() && !stopping_) wanted_.wait(lock);
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.work();
    job.done(Status());
    lock.lock();
    done_.notify_all();
  }
}

bool PageWriter::is_stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void PageWriter::stop() {
  std::deque<Job> undone;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    undone.swap(jobs_);
    wanted_.notify_all();
    done_.notify_all();
  }
  for (const Job& job : undone) job.done(cancelled());
  if (thread_.joinable()) thread_.join();
}

}  // namespace brickfs
