// SPDX-License-Identifier: Apache-2.0
// The mount's end of one program's queue (fs/shm_queue): its memory, the files that the program has shown, and the
// thread that does what it asks for. What the program does wrong ends its queue, and is nobody else's business.
//
// Threads: any; its own does the work.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "fs/fuse/serve/session.h"
#include "fs/shm_queue/serve/program.h"
#include "fs/shm_queue/serve/shm_queue_requests.h"
#include "fs/shm_queue/socket.h"
#include "transport/base/result.h"
#include "transport/base/short_wait.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class ShmQueue {
 public:
  // Of all queues of a mount; outlives them.
  struct Mount {
    FuseSession& session;
    const std::string device_number;
    const int stopped;                           // eventfd: readable when all queues are to end
    std::atomic<bool> writes_by_kernel = false;  // all of them: it has a write-back cache, or is read-only
    std::function<void()> on_end;                // a queue's thread is about to end
    MemoryShares shares = {};
  };
  // Who is at the other end of the socket.
  struct Peer {
    pid_t pid = 0;  // 0: not one that we see
    uid_t uid = 0;
  };

  ShmQueue(Mount& mount, const Peer& peer, UniqueFd socket);
  ~ShmQueue();  // waits until the thread has ended
  ShmQueue(const ShmQueue&) = delete;
  ShmQueue& operator=(const ShmQueue&) = delete;

  Status start();  // once; EAGAIN: no thread
  const Peer& peer() const { return peer_; }
  // Readable by poll() as hung up when the program has gone.
  int socket() const { return socket_.get(); }
  // The program has gone: nobody waits for what is under way.
  void interrupt();
  // All queues end: what is under way is done. This and interrupt() are to be said again until it has ended, as a
  // program may take the wake away.
  void end();
  bool has_ended() const { return ended_; }

 private:
  struct Memory;

  void run();
  Status map_memory(UniqueFd& memory, const shm_queue::Message& message);
  Status begin();
  Status serve();
  Result<size_t> serve_submitted();
  void wait();
  void sleep();
  void wake();
  bool has_news() const;
  Status hear();
  Status receive(shm_queue::Message& message, UniqueFd& descriptor);
  Status answer(int32_t result);
  Result<int32_t> show(UniqueFd descriptor);

  Mount& mount_;
  const Peer peer_;
  UniqueFd socket_;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> is_to_end_{false};
  std::atomic<bool> ended_{false};
  std::atomic<ShmQueueRequests*> at_work_{nullptr};  // for interrupt() and end()

  // The thread's.
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<ShmQueueRequests> requests_;
  uint32_t taken_ = 0;  // entries
  uint32_t heard_ = 0;  // of ControlArea::said
  ShortWait short_wait_{ShortWait::kForRequest};

  std::thread thread_;
};

}  // namespace brickfs
