// SPDX-License-Identifier: Apache-2.0
// The memory that a program and the brickfs of a mount share: what the program asks for, what it is answered, and the
// buffer that bytes move to and from. It has nothing to do with FUSE over io_uring (fs/fuse/serve/uring.h).
//
// A memfd of the program, whose pages it has faulted in, so that they count as its memory: ControlArea at its start,
// the buffer from kControlBytes on. The program seals it against shrinking; the mount, once it has mapped it, against
// holes (F_SEAL_FUTURE_WRITE), which it would have to fill. Both ends are on one machine, so numbers are as that has
// them. The mount trusts nothing of it: it takes an entry once (take()), checks its copy, and keeps its own place in
// the queue.
//
// A request has a slot of the program's choice, which is free again when it has been answered; so there are never more
// requests than slots, and the queue never overflows.
//
// Threads: as each member says.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <type_traits>

namespace brickfs::shm_queue {

constexpr uint32_t kSlots = 256;                                   // a power of two
constexpr uint64_t kLeastBufferBytes = 4096;                       // and a multiple of that
constexpr uint64_t kMostBufferBytes = uint64_t{64} * 1024 * 1024;  // of one queue
constexpr uint32_t kMostTransferBytes = 4 * 1024 * 1024;           // of one request
constexpr uint32_t kMostFiles = 1024;                              // of one queue
constexpr uint32_t kMostQueues = 512;                              // of one mount
constexpr uint32_t kMostQueuesOfUser = 256;                        // root is not counted
constexpr uint64_t kMostMemoryOfUser = uint64_t{512} << 20;        // of all his queues; nor here

enum class Operation : uint32_t { kRead = 1, kWrite = 2, kFsync = 3 };

// The kernel's dirty pages of these bytes have been written back since the mount asked for that.
constexpr uint32_t kWrittenBack = 1;

struct Entry {
  uint32_t slot;           // below kSlots
  Operation operation;     //
  uint32_t file;           // that the mount gave
  uint32_t flags;          // kWrittenBack
  uint64_t offset;         // in the file
  uint64_t buffer_offset;  // in the buffer
  uint32_t length;         // bytes, at most kMostTransferBytes
  uint32_t unused[7];      // 0
};
static_assert(sizeof(Entry) == 64 && std::is_trivially_copyable_v<Entry>);

// What an answer says but for its number.
enum class Verdict : uint32_t {
  kDone = 1,        // number: bytes, or an errno below zero
  kWriteBack = 2,   // the kernel may have newer bytes: they are to be written back, and then this asked for again
  kByKernel = 3,    // this is to be asked of the kernel, which alone can do it: nothing has been done
  kDoneCached = 4,  // as kDone; the kernel has pages of the file's bytes there, so ask for them with kWrittenBack
};

struct Answer {
  std::atomic<Verdict> verdict;  // by the mount, last; 0 while it is under way
  uint32_t unused;
  int64_t number;
};
static_assert(sizeof(Answer) == 16);

struct ControlArea {
  // By the program.
  alignas(64) std::atomic<uint32_t> submitted;  // entries so far, modulo 2^32
  alignas(64) std::atomic<uint32_t> said;       // messages on the socket so far (socket.h)
  alignas(64) std::atomic<uint32_t> waiters;    // threads that sleep on `answered`, a futex
  // By the mount.
  alignas(64) std::atomic<uint32_t> answered;  // another number: there are new answers
  alignas(64) std::atomic<uint32_t> sleeps;    // 1: on this word, a futex; 0 by who submits or says, who then wakes it
  std::atomic<uint32_t> processor;             // on which it takes what is submitted
  alignas(64) std::atomic<uint32_t> ended;     // 1: nothing is answered any more
  alignas(64) std::array<Entry, kSlots> entries;
  alignas(64) std::array<Answer, kSlots> answers;  // by slot
};
constexpr uint64_t kControlBytes = 24 * 1024;
static_assert(sizeof(ControlArea) <= kControlBytes);
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<Verdict>::is_always_lock_free);

// A copy that stays as it is, whatever the program does to the original.
inline Entry take(Entry& shared) {
  std::array<uint64_t, sizeof(Entry) / sizeof(uint64_t)> words;
  auto* const from = reinterpret_cast<uint64_t*>(&shared);
  for (size_t i = 0; i < words.size(); ++i) words[i] = std::atomic_ref(from[i]).load(std::memory_order_relaxed);
  return std::bit_cast<Entry>(words);
}

// Sleeping on a word of the memory that both ends of a queue have: futex(2), between processes.
//
// Threads: any.
// While the word has that value, until it is woken; or for nothing. At most so long, if it is said.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, nullptr, nullptr, 0);
}
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value, std::chrono::milliseconds most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(most - seconds).count()};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &timeout, nullptr, 0);
}

// All who wait.
inline void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace brickfs::shm_queue
