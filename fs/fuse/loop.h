// SPDX-License-Identifier: Apache-2.0
// The threads that serve a mount. Requests come through /dev/fuse or, where the kernel has it, over io_uring; an
// operation blocks its thread while the network is busy with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fs/fuse/device_queue.h"
#include "fs/fuse/device_worker.h"
#include "fs/fuse/interrupts.h"
#include "fs/fuse/mount.h"
#include "fs/fuse/ring_queue.h"
#include "fs/fuse/ring_worker.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class FuseLoop {
 public:
  // `io_uring`: off, or the kernel may use it (RingSwitch::obstacle). `why` gets a line for people: ENOTSUP, it is
  // demanded and this process may not.
  static Result<std::unique_ptr<FuseLoop>> start(FuseMount& mount, VolumeClient& volume, IoUring io_uring,
                                                 std::string* why);
  ~FuseLoop();  // as stop()
  FuseLoop(const FuseLoop&) = delete;
  FuseLoop& operator=(const FuseLoop&) = delete;

  // Readable once a thread has found that the kernel ended the connection.
  int ended() const { return ended_.get(); }
  // The kernel and we have told each other what we can do, which its first request is about.
  bool has_begun() const { return begun_; }
  // Some thread is at a request.
  bool busy() const;
  // Returns when every thread has finished the request it was at. No new ones are taken.
  void stop();

 private:
  struct Worker {
    std::unique_ptr<FuseRingWorker> ring;  // one of these
    std::unique_ptr<FuseDeviceWorker> device;
    std::thread thread;
    bool extra = false;  // of /dev/fuse: only while the brick is away
    size_t cpu = 0;      // of a ring's queue
    std::atomic<bool> runs{false};

    bool busy() const { return ring ? ring->busy() : device->busy(); }
  };

  FuseLoop(FuseMount& mount, VolumeClient& volume, bool looks, UniqueFd ended)
      : mount_(mount), volume_(volume), device_queue_(mount.device(), looks), ended_(std::move(ended)) {}
  Status make_ring_workers();
  Result<std::unique_ptr<Worker>> make_ring_worker(size_t cpu);
  Status start_thread(Worker& worker);  // EAGAIN
  void wake_threads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  void start_rings();
  void serve(Worker& worker);
  void process(std::span<std::byte> message);
  FuseProcess processing();
  void read_on();
  void read_on_from_device() ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  void read_on_from_rings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  bool is_brick_there() const;
  bool has_entries_left(size_t cpu) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  Status start_extra_thread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  Status start_extra_ring(size_t cpu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);

  FuseMount& mount_;
  VolumeClient& volume_;
  FuseDeviceQueue device_queue_;
  UniqueFd ended_;  // eventfd
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> running_{0};
  std::atomic<bool> begun_{false};
  std::atomic<bool> rings_started_{false};
  std::vector<FuseRingQueue> queues_;             // by CPU
  std::vector<std::atomic<unsigned>> serving_;    // threads that are at requests, by CPU
  mutable Mutex threads_mutex_;                   // of starting and waking them
  std::vector<std::unique_ptr<Worker>> workers_;  // fixed from start() on
  std::vector<std::unique_ptr<Worker>> extra_workers_ ABSL_GUARDED_BY(threads_mutex_);
  // To the end: the kernel keeps their entries.
  std::vector<std::unique_ptr<Worker>> extra_rings_ ABSL_GUARDED_BY(threads_mutex_);
  std::unique_ptr<FuseInterrupts> interrupts_;  // knows places of theirs
};

}  // namespace brickfs
