// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/shm_queue_requests.h"

#include <algorithm>
#include <cerrno>

#include "fs/fuse/protocol/buffers.h"
#include "fs/fuse/protocol/protocol.h"
#include "fs/operations/gate.h"
#include "fs/operations/joint_transfer.h"
#include "fs/shm_queue/memory.h"
#include "transport/base/mutex.h"
#include "transport/brick/limits.h"

namespace brickfs {

using shm_queue::Entry;
using shm_queue::Operation;
using shm_queue::Verdict;

namespace {

uint32_t opcode_of(Operation operation) {
  switch (operation) {
    case Operation::kRead:
      return FUSE_READ;
    case Operation::kWrite:
      return FUSE_WRITE;
    case Operation::kFsync:
      break;
  }
  return FUSE_FSYNC;
}

}  // namespace

ShmQueueRequests::ShmQueueRequests(FuseSession& session, pid_t program, std::span<std::byte> memory, uint32_t local_key,
                                   const std::atomic<bool>& writes_by_kernel)
    : session_(session),
      files_(session.files()),
      limit_(program),
      control_(*reinterpret_cast<shm_queue::ControlArea*>(memory.data())),
      buffer_(memory.subspan(shm_queue::kControlBytes)),
      local_key_(local_key),
      writes_by_kernel_(writes_by_kernel) {
  tasks_.reserve(kMostTogether);
}

Result<uint32_t> ShmQueueRequests::add_file(const ShownFile& file) {
  const auto free = std::find(shown_.begin(), shown_.end(), std::nullopt);
  const auto number = static_cast<uint32_t>(free - shown_.begin());
  if (number == shm_queue::kMostFiles) return Error(EMFILE, "files of a queue");
  if (free == shown_.end()) {
    shown_.emplace_back(file);
  } else {
    *free = file;
  }
  return number;
}

void ShmQueueRequests::forget_file(uint32_t number) {
  if (number < shown_.size()) shown_[number].reset();
}

Status ShmQueueRequests::serve(std::span<const Entry> entries) {
  tasks_.clear();
  for (const Entry& entry : entries) {
    if (entry.slot >= shm_queue::kSlots) return Error(EPROTO, "a slot that there is not");
    auto task = check(entry);
    if (!task.ok()) {
      answer(entry.slot, Verdict::kDone, -task.code());
    } else if (const auto verdict = refer(*task)) {
      answer(entry.slot, *verdict, 0);
    } else if (const Status held = files_.hold(task->file.ino); !held.ok()) {
      answer(entry.slot, Verdict::kDone, -held.code());
    } else {
      tasks_.push_back(std::move(*task));
    }
  }
  if (tasks_.size() < entries.size()) wake();
  if (tasks_.size() > 1) {
    auto wake_later = files_.answer_first();
    move_together(tasks_, wake_later);
    bool any = false;
    for (Task& task : tasks_) {
      if (task.is_done) finish(task, wake_later);
      any |= task.is_done;
    }
    if (any) wake();
  }
  for (Task& task : tasks_) {
    if (task.is_done) continue;
    auto wake_later = files_.answer_first();
    move_alone(task, wake_later);
    finish(task, wake_later);
    wake();
  }
  for (const Task& task : tasks_) files_.forget(task.file.ino, 1);
  return {};
}

Result<ShmQueueRequests::Task> ShmQueueRequests::check(const Entry& entry) const {
  const Operation operation = entry.operation;
  if (operation != Operation::kRead && operation != Operation::kWrite && operation != Operation::kFsync)
    return Error(EINVAL, "an operation that there is not");
  if ((entry.flags & ~shm_queue::kWrittenBack) != 0 || entry.file >= shown_.size() || !shown_[entry.file])
    return Error(EINVAL, "flags or a file that there are not");
  const ShownFile& file = *shown_[entry.file];
  Task task{.entry = entry, .file = file, .data = {}, .begun = std::chrono::steady_clock::now()};
  TRY(gate(files_));
  if (operation == Operation::kFsync) return task;
  if (operation == Operation::kRead ? !file.reads : !file.writes) return Error(EBADF, "not open for that");
  if (entry.length > shm_queue::kMostTransferBytes || entry.buffer_offset > buffer_.size() ||
      entry.length > buffer_.size() - entry.buffer_offset || entry.offset > limits::kFileBytes) {
    return Error(EINVAL, "bytes that there are not");
  }
  task.data = {buffer_.data() + entry.buffer_offset, entry.length, local_key_};
  task.touches = operation == Operation::kRead && file.touch == Touch::kAtime && files_.is_atime_due(file.ino);
  return task;
}

std::optional<Verdict> ShmQueueRequests::refer(const Task& task) {
  const Entry& entry = task.entry;
  if (entry.operation == Operation::kFsync) {
    const bool may_be_dirty = session_.cache().may_have_pages(task.file.ino, 0, limits::kFileBytes);
    return may_be_dirty || session_.writeback() != nullptr ? std::optional(Verdict::kByKernel) : std::nullopt;
  }
  if (entry.length > limits::kFileBytes - entry.offset) return Verdict::kByKernel;
  if (task.writes() && (task.file.appends || writes_by_kernel_ || !limit_.allows(entry.offset + entry.length)))
    return Verdict::kByKernel;
  if (!may_have_pages(task)) return std::nullopt;
  if (!session_.negotiation().waits_for_pages()) return Verdict::kByKernel;
  return (entry.flags & shm_queue::kWrittenBack) == 0 ? std::optional(Verdict::kWriteBack) : std::nullopt;
}

bool ShmQueueRequests::may_have_pages(const Task& task) const {
  return session_.cache().may_have_pages(task.file.ino, task.entry.offset, task.entry.length);
}

// As far as nothing has to be waited for but the brick's answers.
void ShmQueueRequests::move_together(std::span<Task> tasks, WakeLater& wake_later) {
  const auto transfer = files_.joint_transfer({.thread = 0, .interruption = &interruption_, .wake_later = &wake_later});
  std::array<Task*, kMostTogether> begun;
  size_t count = 0;
  for (Task& task : tasks) {
    const Entry& entry = task.entry;
    if (entry.operation == Operation::kFsync || entry.length == 0 || entry.length > kFewBytes) continue;
    if (task.writes() && task.file.syncs) continue;
    if (task.writes()) {
      if (!transfer->begin_overwrite(task.file.ino, entry.offset, task.data)) continue;
    } else if (!transfer->begin_read(task.file.ino, entry.offset, task.data, task.file.touch)) {
      continue;
    }
    begun[count++] = &task;
  }
  if (count == 0 || !transfer->try_move().ok()) return;
  for (size_t i = 0; i < count; ++i) {
    begun[i]->result = transfer->result(i);
    begun[i]->is_done = true;
  }
}

void ShmQueueRequests::move_alone(Task& task, WakeLater& wake_later) {
  const OperationContext context{.thread = 0, .interruption = &interruption_, .wake_later = &wake_later};
  const Ino ino = task.file.ino;
  task.is_done = true;
  if (task.entry.operation == Operation::kFsync) {
    const Status synced = files_.sync(ino, context);
    task.result = synced.ok() ? Result<uint64_t>(0) : synced.error();
  } else if (!task.writes()) {
    task.result = files_.read(ino, task.entry.offset, {&task.data, 1}, task.file.touch, context);
  } else {
    task.result = files_.overwrite(ino, task.entry.offset, {&task.data, 1}, context);
    if (!task.result.ok() || !task.file.syncs) return;
    const Status synced = files_.sync(ino, context);
    if (!synced.ok()) task.result = synced.error();
  }
}

// The kernel is told before the answer is given. Of a failed write, too, of which some bytes may be there.
void ShmQueueRequests::finish(Task& task, WakeLater& wake_later) {
  const Ino ino = task.file.ino;
  if (task.writes() && task.result.code() == ERANGE) return answer(task.entry.slot, Verdict::kByKernel, 0);
  KernelCache& cache = session_.cache();
  if (task.writes()) {
    // The kernel may wait for a write of those pages, and that for a commit.
    cache.drop_changed(
        ino, {task.entry.offset, task.entry.length}, [&wake_later] { wake_later.wake(); }, &interruption_);
  } else if (task.touches) {
    cache.drop_stamped({&ino, 1}, {});
  }
  session_.operations().count(opcode_of(task.entry.operation), task.result.code(),
                              std::chrono::steady_clock::now() - task.begun, task.result.ok() ? *task.result : 0);
  const bool stays_cached = !task.writes() && task.entry.length > 0 && may_have_pages(task);
  answer(task.entry.slot, stays_cached ? Verdict::kDoneCached : Verdict::kDone,
         task.result.ok() ? static_cast<int64_t>(*task.result) : -task.result.code());
}

void ShmQueueRequests::answer(uint32_t slot, Verdict verdict, int64_t number) {
  shm_queue::Answer& answer = control_.answers[slot];
  answer.number = number;
  answer.verdict.store(verdict);
}

void ShmQueueRequests::wake() {
  control_.answered.fetch_add(1);
  if (control_.waiters.load() == 0) return;
  woke_ = true;
  shm_queue::futex_wake(control_.answered);
}

}  // namespace brickfs
