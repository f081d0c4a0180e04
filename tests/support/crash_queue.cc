// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fs/library/brickfs.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

uint32_t operation_of(QueuedRequest::Kind kind) {
  return kind == QueuedRequest::Kind::kSync ? BRICKFS_FSYNC : BRICKFS_WRITE;
}

}  // namespace

CrashQueue::CrashQueue(Filesystem& filesystem, bool background, Tick tick) : tick_(std::move(tick)) {
  fs_.filesystem.reset(&filesystem);  // lent, until the end
  fs_.workers.emplace(fs_.options.workers);
  CHECK(brickfs_fs_queue(&fs_, kMost, background ? BRICKFS_QUEUE_BACKGROUND : 0, &queue_) == 0);
}

CrashQueue::~CrashQueue() {
  brickfs_queue_free(queue_);
  for (brickfs_file* const file : files_) CHECK(brickfs_close(file) == 0);
  fs_.workers.reset();
  static_cast<void>(fs_.filesystem.release());
}

Status CrashQueue::submit(const std::string& path, QueuedRequest request) {
  CHECK(!is_full());
  const int flags = O_RDWR | (request.kind == QueuedRequest::Kind::kAppend ? O_APPEND : 0);
  brickfs_file* file = nullptr;
  const int opened = brickfs_open(&fs_, path.c_str(), flags, 0, &file);
  if (opened != 0) return Error(-opened, "open");
  request.ino = file->ino;
  request.begin = tick_();
  files_.push_back(file);
  QueuedRequest& kept = requests_.emplace_back(std::move(request));
  brickfs_request asked{};
  asked.operation = operation_of(kept.kind);
  asked.file = file;
  asked.offset = kept.offset;
  asked.data = kept.bytes.data();
  asked.length = kept.bytes.size();
  asked.user_data = requests_.size() - 1;
  ++under_way_;
  CHECK(brickfs_submit(queue_, &asked, 1) == 1);
  return {};
}

void CrashQueue::wait(size_t least) {
  std::array<brickfs_completion, kMost> done;
  for (least = std::min(least, under_way_); least > 0;) {
    const int count = brickfs_poll(queue_, done.data(), kMost, 1, -1);
    CHECK(count > 0);
    for (const brickfs_completion& completion : std::span(done).first(static_cast<size_t>(count))) {
      QueuedRequest& request = requests_[completion.user_data];
      request.result = completion.result;
      request.end = tick_();
    }
    under_way_ -= static_cast<size_t>(count);
    least -= std::min(least, static_cast<size_t>(count));
  }
}

}  // namespace brickfs
