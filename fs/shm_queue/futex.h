// SPDX-License-Identifier: Apache-2.0
// Sleeping on a word of the memory that both ends of a queue have: futex(2), between processes.
//
// Threads: any.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace brickfs::shm_queue {

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
