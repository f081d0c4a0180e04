// SPDX-License-Identifier: Apache-2.0
// The threads that serve a mount: each receives a request into its own buffers, has it served and replied to, and waits
// for the next. An operation blocks its thread while the network is busy with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "fs/fuse_buffers.h"
#include "fs/fuse_mount.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class FuseLoop {
 public:
  static constexpr size_t kThreads = 12;

  static Result<std::unique_ptr<FuseLoop>> start(FuseMount& mount, VolumeClient& volume);
  ~FuseLoop();  // as stop()
  FuseLoop(const FuseLoop&) = delete;
  FuseLoop& operator=(const FuseLoop&) = delete;

  // Readable once a thread has found that the kernel ended the connection.
  int ended() const { return ended_.get(); }
  // Some thread is at a request.
  bool busy() const;
  // Returns when every thread has finished the request it was at. No new ones are taken.
  void stop();

 private:
  struct Worker {
    std::unique_ptr<FuseBuffers> buffers;
    std::atomic<bool> busy{false};
    std::thread thread;
  };

  FuseLoop(FuseMount& mount, UniqueFd ended) : mount_(mount), ended_(std::move(ended)) {}
  void serve(Worker& worker);
  // False: the connection has ended.
  bool serve_one(Worker& worker);

  FuseMount& mount_;
  UniqueFd ended_;  // eventfd
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> running_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace brickfs
