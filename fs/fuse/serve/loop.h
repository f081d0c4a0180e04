// SPDX-License-Identifier: Apache-2.0
// The workers that serve a mount, each a thread. Requests come through /dev/fuse or, where the kernel has it, over
// io_uring; an operation blocks its thread while the network is busy with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/fuse/interrupt/interrupts.h"
#include "fs/fuse/serve/device_source.h"
#include "fs/fuse/serve/mount.h"
#include "fs/fuse/serve/session.h"
#include "fs/fuse/serve/uring_request.h"
#include "fs/fuse/serve/uring_source.h"
#include "fs/fuse/serve/worker.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class FuseLoop {
 public:
  // `io_uring`: off, or the kernel may use it (UringSwitch::obstacle). `why` gets a line for people: ENOTSUP, it is
  // demanded and this process may not.
  static Result<std::unique_ptr<FuseLoop>> start(FuseMount& mount, IoUring io_uring, std::string* why);
  ~FuseLoop();  // as stop()
  FuseLoop(const FuseLoop&) = delete;
  FuseLoop& operator=(const FuseLoop&) = delete;

  // Readable once a thread has found that the kernel ended the connection.
  int ended() const { return ended_.get(); }
  // The kernel and we have told each other what we can do, which its first request is about.
  bool has_begun() const { return begun_; }
  // Returns when every worker has finished the request it was at. No new ones are taken.
  void stop();

 private:
  struct Worker {
    std::unique_ptr<FuseWorker> worker;
    FuseUringSource* uring = nullptr;  // its source; null: that is /dev/fuse
    std::thread thread;
    bool extra = false;  // of /dev/fuse: only while the brick is away
    size_t cpu = 0;      // of its queue over io_uring
    std::atomic<bool> runs{false};
  };
  using Workers = std::vector<std::unique_ptr<Worker>>;

  FuseLoop(FuseMount& mount, bool polls, UniqueFd ended, UniqueFd stopped);
  Status make_uring_workers();
  Result<std::unique_ptr<Worker>> make_uring_worker(size_t cpu);
  Result<std::unique_ptr<Worker>> make_device_worker();
  Status start_thread(Worker& worker);  // EAGAIN
  void begin();
  void start_uring();
  void serve(Worker& worker);
  void read_on();
  void read_on_from_device() ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  void read_on_from_uring() ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  bool is_brick_there() const;
  bool has_entries_left(size_t cpu) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  Status start_extra_thread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);
  Status start_extra_uring(size_t cpu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);

  FuseMount& mount_;
  FuseSession& session_;
  VolumeAccess& volume_;
  const bool polls_;
  UniqueFd ended_;    // eventfd
  UniqueFd stopped_;  // eventfd
  FuseDeviceQueue device_queue_;
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> running_{0};
  std::atomic<bool> begun_{false};
  std::atomic<bool> uring_started_{false};
  std::vector<FuseUringQueue> queues_;          // by CPU
  std::vector<std::atomic<unsigned>> serving_;  // workers that are at requests, by CPU
  Mutex threads_mutex_;                         // of starting them
  std::unique_ptr<FuseDispatcher> dispatcher_;
  Workers workers_;  // fixed from start() on
  Workers extra_workers_ ABSL_GUARDED_BY(threads_mutex_);
  Workers extra_uring_ ABSL_GUARDED_BY(threads_mutex_);  // to the end: the kernel keeps their entries
  std::unique_ptr<FuseInterrupts> interrupts_;           // knows requests of theirs
};

}  // namespace brickfs
