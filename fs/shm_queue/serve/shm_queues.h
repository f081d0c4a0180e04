// SPDX-License-Identifier: Apache-2.0
// The queues of a mount (-o ring=on): programs come by a socket that everybody on this machine may connect to
// (fs/shm_queue/socket.h), and each gets a ShmQueue. A thread of its own lets them in, sees who has gone, and
// whether the kernel still takes writes. docs/decisions, 74.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/fuse/serve/session.h"
#include "fs/mount/listening_socket.h"
#include "fs/shm_queue/serve/shm_queue.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class ShmQueues {
 public:
  // Of the mount with this device number, which is serving. EACCES and others: there can be no socket.
  static Result<std::unique_ptr<ShmQueues>> start(FuseSession& session, const std::string& device_number);
  ~ShmQueues();  // as stop()
  ShmQueues(const ShmQueues&) = delete;
  ShmQueues& operator=(const ShmQueues&) = delete;

  // Nobody new is let in, all queues end, and what they are at has been done. While the kernel's requests are served.
  void stop();
  size_t count() const { return count_; }

 private:
  struct Place {
    std::unique_ptr<ShmQueue> queue;
    bool has_gone = false;  // the program
  };

  ShmQueues(FuseSession& session, const std::string& device_number, ListeningSocket listening, UniqueFd stopped,
            UniqueFd woken);
  void run();
  void wait();
  void wait_for_end(int most_ms);
  void open_or_close();
  void let_in();
  bool turn_away();
  Status admit(UniqueFd socket);
  void look_at_mounts();

  ListeningSocket listening_;
  bool is_open_ = true;     // the socket, for everybody; the thread's
  const UniqueFd stopped_;  // eventfd
  const UniqueFd woken_;    // eventfd: a queue has ended
  const UniqueFd mounts_;   // the kernel's table, which tells of changes
  UniqueFd spare_;          // its number is for who has to be turned away when there is no other
  ShmQueue::Mount mount_;
  std::vector<Place> places_;     // the thread's
  std::atomic<size_t> count_{0};  // of places_
  std::thread thread_;
};

}  // namespace brickfs
