// SPDX-License-Identifier: Apache-2.0
// The rings of a mount (-o ring=on): programs come by a socket that everybody on this machine may connect to
// (fs/shm_queue/ring_socket.h), and each gets a DirectRing. A thread of its own lets them in, sees who has gone, and
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
#include "fs/shm_queue/serve/direct_ring.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class DirectRings {
 public:
  // Of the mount with this device number, which is serving. EACCES and others: there can be no socket.
  static Result<std::unique_ptr<DirectRings>> start(FuseSession& session, const std::string& device_number);
  ~DirectRings();  // as stop()
  DirectRings(const DirectRings&) = delete;
  DirectRings& operator=(const DirectRings&) = delete;

  // Nobody new is let in, all rings end, and what they are at has been done. While the kernel's requests are served.
  void stop();
  size_t count() const { return count_; }

 private:
  struct Place {
    std::unique_ptr<DirectRing> ring;
    bool has_gone = false;  // the program
  };

  DirectRings(FuseSession& session, const std::string& device_number, ListeningSocket listening, UniqueFd stopped,
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
  const UniqueFd woken_;    // eventfd: a ring has ended
  const UniqueFd mounts_;   // the kernel's table, which tells of changes
  UniqueFd spare_;          // its number is for who has to be turned away when there is no other
  DirectRing::Mount mount_;
  std::vector<Place> places_;     // the thread's
  std::atomic<size_t> count_{0};  // of places_
  std::thread thread_;
};

}  // namespace brickfs
