// SPDX-License-Identifier: Apache-2.0
// What a transport adds to a Link: how connections for calls and queue pairs for data come about.
//
// Threads: every call from any thread.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "transport/base/result.h"
#include "transport/brick/calls.h"
#include "transport/brick/channel.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/brick/tls_mode.h"
#include "transport/onesided/queue_pair.h"
#include "transport/remote/handshake.h"

namespace brickfs::onesided {

using Clock = std::chrono::steady_clock;

// Tells of the end of a queue pair's connection. Of one thread.
class ConnectionEnd {
 public:
  virtual ~ConnectionEnd() = default;
  virtual pollfd watch() const = 0;  // what poll() is to look at
  virtual bool has_ended() = 0;      // does not wait

 protected:
  ConnectionEnd() = default;
};

struct Connected {
  std::unique_ptr<ConnectionEnd> end;  // goes after the queue pair; null: nothing tells of it
  std::unique_ptr<QueuePair> pair;
  std::string handles;  // for people: what handles are on the brick
};

// The place on the brick where a queue pair is to be made.
struct Place {
  const HostPort& address;
  Channel& calls;  // the path's, for who wants to know where it leads; calls go by `ask`
  std::function<Result<calls::Answer>(const calls::Request&)> ask;
  std::function<void(uint32_t pair)> offered;  // to be told of its number as soon as the brick has it
};

class Connector {
 public:
  virtual ~Connector() = default;
  virtual std::string_view transport() const = 0;  // for people: "rdma"
  // Of queue pairs on one path.
  virtual size_t most_queue_pairs() const = 0;
  // A connection for calls, encrypted by the secret if the transport can. Never beyond `latest`. ENODEV: no device
  // leads there; else as tcp::greet().
  virtual Result<Greeted<Channel>> greet(const HostPort& address, Deadline latest, TlsMode tls,
                                         const Secret& secret) = 0;
  // For people: by which device, as far as its connection tells.
  virtual std::string device_of(Channel& calls) const = 0;
  virtual Result<Connected> connect(const Place& place, Deadline latest) = 0;
  // Whether a way there is known, whatever it carries. ETIMEDOUT: perhaps.
  virtual Status find_way(const HostPort& address, Deadline latest) = 0;

 protected:
  Connector() = default;
};

}  // namespace brickfs::onesided
