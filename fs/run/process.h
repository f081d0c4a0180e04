// SPDX-License-Identifier: Apache-2.0
// What a process has of rings: each thread some, one for each mount, and all together not too many. A child of fork(2)
// has none of its parent's.
//
// Threads: any, also in signal handlers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "fs/shm_queue/ring_client.h"

namespace brickfs::run {

constexpr size_t kRingBufferBytes = 256 * 1024;

// The calling thread's ring of that mount; null: it has none. It ends with the thread.
direct::RingClient* thread_ring(dev_t device);
// The same; one that it has not is made once it was asked for often, as it has its price. Each that could not be made,
// or took the place of another, makes that twice as often. `descriptor`: a file there.
direct::RingClient* want_thread_ring(int descriptor, dev_t device);
// It has ended, or was of no use.
void drop_thread_ring(dev_t device);
// Which one that is, of all that there were in this process; 0: it has none.
uint64_t thread_ring_number(dev_t device);
// forget_thread() is to be called when the calling thread ends. False: it cannot be.
bool note_thread();
// That file system may be a mount with rings.
bool has_rings(dev_t device);

// What went which way, of files of mounts with rings. Printed when the process ends, if there was any and
// BRICKFS_RUN_STATS is 1.
enum class Outcome { kReadByRing, kReadByKernel, kWrittenByRing, kWrittenByKernel, kSyncedByRing, kSyncedByKernel };
void count(Outcome outcome);

}  // namespace brickfs::run
