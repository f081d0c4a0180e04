// SPDX-License-Identifier: Apache-2.0
// Does what a program asks for on its queue (fs/shm_queue/memory.h), so that all others see it as if it had gone
// through the kernel: the kernel drops pages and attributes that are older before a write is answered.
//
// What the kernel alone can do is left to it (Verdict::kByKernel): it knows where a file ends while another appends to
// it, what a signal is due for, and whose set-uid bits go. So here bytes of a file are only ever replaced. And where
// the kernel may have newer bytes, the program has it write them back first (Verdict::kWriteBack).
//
// Threads: one, which serves nothing of the kernel's; but interrupt().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fs/fuse/serve/session.h"
#include "fs/shm_queue/memory.h"
#include "fs/shm_queue/serve/program.h"
#include "transport/base/interruption.h"

namespace brickfs {

class ShmQueueRequests {
 public:
  static constexpr size_t kMostTogether = 64;  // entries of one call of serve()

  // `program`: whose limits hold; 0: not known. `memory`: ControlArea and buffer; `local_key`: of the buffer's
  // registration. `writes_by_kernel`: it does all writes now. All outlive this.
  ShmQueueRequests(FuseSession& session, pid_t program, std::span<std::byte> memory, uint32_t local_key,
                   const std::atomic<bool>& writes_by_kernel);
  ShmQueueRequests(const ShmQueueRequests&) = delete;
  ShmQueueRequests& operator=(const ShmQueueRequests&) = delete;

  // The file's number. EMFILE.
  Result<uint32_t> add_file(const ShownFile& file);
  void forget_file(uint32_t number);  // one that there is not is passed over

  // All are answered. EPROTO: one is of a slot that there is not, so the program is not to be served any more.
  Status serve(std::span<const shm_queue::Entry> entries);
  // An answer since this was asked last had to wake the program: it wants a processor.
  bool take_woke() { return std::exchange(woke_, false); }
  // Nobody waits for what is asked for.
  void interrupt() { interruption_.raise(); }

 private:
  struct Task {
    shm_queue::Entry entry;
    ShownFile file;
    LocalSlice data;
    std::chrono::steady_clock::time_point begun;
    Result<uint64_t> result = 0;
    bool touches = false;  // the time of reading changes
    bool is_done = false;

    bool writes() const { return entry.operation == shm_queue::Operation::kWrite; }
  };

  Result<Task> check(const shm_queue::Entry& entry) const;
  std::optional<shm_queue::Verdict> refer(const Task& task);
  bool may_have_pages(const Task& task) const;
  void move_together(std::span<Task> tasks, WakeLater& wake_later);
  void move_alone(Task& task, WakeLater& wake_later);
  void finish(Task& task, WakeLater& wake_later);
  void answer(uint32_t slot, shm_queue::Verdict verdict, int64_t number);
  void wake();

  FuseSession& session_;
  FileOperations& files_;
  FileSizeLimit limit_;
  shm_queue::ControlArea& control_;
  const std::span<std::byte> buffer_;
  const uint32_t local_key_;
  const std::atomic<bool>& writes_by_kernel_;
  Interruption interruption_;
  std::vector<std::optional<ShownFile>> shown_;
  // Of the round at hand. Each holds its inode, whose last descriptor may be closed meanwhile.
  std::vector<Task> tasks_;
  bool woke_ = false;
};

}  // namespace brickfs
