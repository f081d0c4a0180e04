// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/page_writer.h"

#include <algorithm>
#include <cerrno>

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kLookForInterruption{50};

}  // namespace

PageWriter::~PageWriter() { stop(); }

void PageWriter::add(std::function<void()> job) {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  jobs_.push_back(std::move(job));
  wanted_.notify_one();
}

void PageWriter::run_later(std::function<void()> job) {
  MutexLock lock(mutex_);
  if (!stopping_) add(std::move(job));
}

Status PageWriter::write_back(Ino ino, std::chrono::milliseconds patience, const Interruption* by) {
  const auto overdue = std::chrono::steady_clock::now() + patience;
  const auto is_done = std::make_shared<std::atomic<bool>>(false);
  MutexLock lock(mutex_);
  if (stopping_) return Error(ECANCELED, "no more is written back");
  add([this, ino, is_done] {
    notice_(ino);
    *is_done = true;
  });
  while (!*is_done && !stopping_) {
    TRY(Interruption::check(by));
    if (std::chrono::steady_clock::now() >= overdue) return Error(ETIMEDOUT, "the kernel does not write back");
    done_.wait_for(lock, kLookForInterruption);
  }
  return *is_done ? Status() : Status(Error(ECANCELED, "no more is written back"));
}

void PageWriter::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (jobs_.empty() && !stopping_) wanted_.wait(lock);
    if (stopping_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
    done_.notify_all();
  }
}

bool PageWriter::is_stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void PageWriter::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wanted_.notify_all();
    done_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace brickfs
