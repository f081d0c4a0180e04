// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/page_writer.h"

#include <cerrno>
#include <memory>
#include <optional>

#include "transport/base/mutex.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kLookForInterruption{50};

struct Waited {
  Mutex mutex;
  CondVar changed;
  std::optional<Status> status ABSL_GUARDED_BY(mutex);
};

}  // namespace

void PageWriter::run_later(std::function<void()> job) {
  thread_.give(std::move(job), [](const Status&) {});
}

void PageWriter::write_back(Ino ino, Done done) {
  thread_.give([this, ino] { notice_(ino); }, std::move(done));
}

Status PageWriter::write_back(Ino ino, std::chrono::milliseconds patience, const Interruption* by) {
  const auto overdue = std::chrono::steady_clock::now() + patience;
  const auto waited = std::make_shared<Waited>();
  write_back(ino, [waited](const Status& status) {
    MutexLock lock(waited->mutex);
    waited->status = status;
    waited->changed.notify_all();
  });
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
