// SPDX-License-Identifier: Apache-2.0
// What a process has of queues: each thread some, one for each mount, and all together not too many. A child of fork(2)
// has none of its parent's.
//
// Threads: any, also in signal handlers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "fs/shm_queue/client.h"

namespace brickfs::run {

constexpr size_t kQueueBufferBytes = 256 * 1024;

// The calling thread's queue of that mount; null: it has none. It ends with the thread.
shm_queue::Client* thread_queue(dev_t device);
// The same; one that it has not is made once it was asked for often, as it has its price. Each that could not be made,
// or took the place of another, makes that twice as often. `descriptor`: a file there.
shm_queue::Client* want_thread_queue(int descriptor, dev_t device);
// It has ended, or was of no use.
void drop_thread_queue(dev_t device);
// Which one that is, of all that there were in this process; 0: it has none.
uint64_t thread_queue_number(dev_t device);
// forget_thread() is to be called when the calling thread ends. False: it cannot be.
bool note_thread();
// That file system may be a mount with queues.
bool has_queues(dev_t device);

// What went which way, of files of mounts with queues. Printed when the process ends, if there was any and
// BRICKFS_RUN_STATS is 1.
enum class Outcome { kReadByQueue, kReadByKernel, kWrittenByQueue, kWrittenByKernel, kSyncedByQueue, kSyncedByKernel };
void count(Outcome outcome);

}  // namespace brickfs::run
