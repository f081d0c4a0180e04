// SPDX-License-Identifier: Apache-2.0
// A program's end of a queue: its memory, the files that it has shown to the mount, and its requests.
//
// What the mount leaves to the kernel (Verdict) is done here, by the file's descriptor: so every request ends as if the
// kernel had been asked in the first place. A file's descriptor stays open, on that file, as long as requests name it.
//
// Its descriptor is of a high number, and known again before it is used: a program that closes all that it does not
// know (closefrom(3)) ends the queue, and what it opens then is not touched.
//
// A wait may be let go before it is answered: the queue has ended by that, and what was asked for may be done or not.
//
// fork(2): a child has neither the memory nor any use of this; it calls abandon_in_child().
// Threads: any, but that a slot is polled by one.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "fs/shm_queue/memory.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs::shm_queue {

class Client {
 public:
  // Whether a thread that has waited so long is to be let go. Asked of it ten times a second.
  using LetsGo = bool (*)(std::chrono::milliseconds waited);
  // Of the mount on which what this descriptor names is. `buffer_bytes`: kLeastBufferBytes to kMostBufferBytes, rounded
  // up to that. Without `lets_go` all waits last. EOPNOTSUPP: that is no mount with queues; EUSERS: it has too many;
  // EINTR: let go; EFBIG: RLIMIT_FSIZE; EINVAL, ENOMEM, EMFILE; as of Brick::register_memory.
  static Result<std::unique_ptr<Client>> open(int descriptor, uint64_t buffer_bytes, LetsGo lets_go = nullptr);
  ~Client();  // nobody may wait for anything
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::span<std::byte> buffer() const { return buffer_; }
  // The kernel does all writes, as it has a write-back cache.
  bool kernel_writes() const { return kernel_writes_; }
  // The mount has ended, or that other end of the queue.
  bool has_ended() const;
  // After fork(): closes what the child has of it, and forgets it.
  static void abandon_in_child(std::unique_ptr<Client> queue);

  // The mount's number for an open file, with the flags that it has now. EINVAL: no regular file; EXDEV: of another
  // mount; EMFILE: kMostFiles; EBADF; ENOTCONN; EINTR: let go.
  Result<uint32_t> add_file(int descriptor);
  // No request of it is under way.
  void forget_file(uint32_t file);

  struct Request {
    Operation operation{};
    int descriptor = -1;
    uint32_t file = 0;           // of that descriptor
    uint64_t offset = 0;         // in the file
    uint64_t buffer_offset = 0;  // bytes are in the buffer
    uint32_t length = 0;         // at most kMostTransferBytes
    bool is_clean = false;       // the kernel has no pages of these bytes: it need not be asked to write them back
  };
  // Until it is done: bytes, or 0 of kFsync. An errno: that of the system call; ENOTCONN: the queue has ended; EINTR:
  // let go.
  Result<uint64_t> run(const Request& request);
  // The same, but what is left to the kernel has not been done: nothing.
  std::optional<Result<uint64_t>> try_run(const Request& request);

  // Its slot. EAGAIN: kSlots are under way; ENOTCONN.
  Result<uint32_t> start(const Request& request);
  // If it is done, its result; the slot is free then. May have to ask for it again, or ask the kernel.
  std::optional<Result<uint64_t>> poll(uint32_t slot);
  using Clock = std::chrono::steady_clock;
  // Until the mount has answered that slot, if it has not; or until anything (kAnySlot) is answered that had not been
  // when `seen` was answers(). False: it is `deadline`, or it was let go. A queue that has ended answers all.
  static constexpr uint32_t kAnySlot = kSlots;
  uint32_t answers() const { return control_->answered.load(); }
  bool wait(uint32_t slot, uint32_t seen, std::optional<Clock::time_point> deadline);

 private:
  Client(UniqueFd socket, std::byte* memory, uint64_t bytes, bool kernel_writes, LetsGo lets_go);
  static Result<uint64_t> ask_kernel(const Request& request, std::byte* data);
  Result<uint64_t> by_kernel(const Request& request) const;
  bool is_for_kernel(const Request& request) const;
  bool is_left_to_kernel(uint32_t slot) const;
  Error give_up();
  Status submit(uint32_t slot, bool written_back);
  Status write_back(const Request& request) const;
  bool is_answered(uint32_t slot) const { return control_->answers[slot].verdict.load() != Verdict{}; }
  std::optional<Result<uint64_t>> look(uint32_t slot);
  void release(uint32_t slot);
  void wake_mount();
  bool owns_socket() const;
  void close_socket();

  UniqueFd socket_;
  const ino_t socket_inode_;
  ControlArea* const control_;
  const uint64_t memory_bytes_;
  const std::span<std::byte> buffer_;
  const bool kernel_writes_;
  const LetsGo lets_go_;
  std::array<Request, kSlots> requests_;                   // by slot, its owner's
  std::array<std::atomic<bool>, kMostFiles> is_cached_{};  // the kernel had pages of it when it was asked for last

  Mutex mutex_;  // of what is submitted
  std::array<uint16_t, kSlots> free_ ABSL_GUARDED_BY(mutex_);
  size_t free_count_ ABSL_GUARDED_BY(mutex_) = kSlots;
  uint32_t submitted_ ABSL_GUARDED_BY(mutex_) = 0;
  Mutex saying_;  // a message, and its reply
};

}  // namespace brickfs::shm_queue
