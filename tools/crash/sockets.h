// SPDX-License-Identifier: Apache-2.0
// The sockets of the simulated network (network.h). sockets.cc has the C library's calls on them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tools/crash/fibers.h"

namespace brickfs::network {

struct Socket;
using SocketPtr = std::shared_ptr<Socket>;

// Of TCP, or an event's counter.
struct Socket {
  explicit Socket(fibers::Machine of) : machine(of) {}
  void changed();  // whoever watches it looks again
  void fail(int code);

  const fibers::Machine machine;
  int flags = 0;  // F_GETFL
  uint16_t port = 0;
  fibers::Machine peer_machine = 0;
  std::weak_ptr<Socket> peer;
  bool is_listening = false;
  bool is_connecting = false;
  bool has_ended = false;  // nothing is sent any more
  bool is_at_end = false;  // nothing comes any more
  int error = 0;
  std::string inbox;
  std::deque<SocketPtr> backlog;
  uint64_t events = 0;
  fibers::Nanoseconds arrives_last{0};
  std::vector<fibers::WaitList*> watchers;
};

SocketPtr make_socket(fibers::Machine machine);
void connect(const SocketPtr& socket, fibers::Machine to, uint16_t port);
void send(const SocketPtr& socket, std::string bytes);
void send_end(const SocketPtr& socket);

}  // namespace brickfs::network
