// SPDX-License-Identifier: Apache-2.0
// One accepted connection, from greeting to end, on the thread that calls serve(). docs/protocol.md.
#pragma once

#include <memory>
#include <string>

#include "server/brick_service.h"
#include "server/tcp_session.h"
#include "transport/proof.h"
#include "transport/tcp/frame.h"

namespace brickfs {

class TcpConnection {
 public:
  // `fd` stays the caller's and open meanwhile.
  TcpConnection(int fd, std::string peer, BrickService& service, TcpSessions& sessions, const Secret& secret)
      : fd_(fd), peer_(std::move(peer)), service_(service), sessions_(sessions), secret_(secret) {}

  // Until the peer leaves, misbehaves or is cut off. Says nothing to a peer that does not speak the protocol.
  void serve();

 private:
  Status greet(tcp::Deadline deadline);
  Status serve_open(const tcp::Frame& frame);
  Status serve_attach(const tcp::Frame& frame);
  Error refuse(const tcp::Frame& frame, int code, const Holder& holder = {});
  Error refuse_stranger(const tcp::Frame& frame);
  Result<std::shared_ptr<TcpSession>> open_session(const tcp::Frame& frame, const OpenRequest& request);

  const int fd_;
  const std::string peer_;  // for the log
  BrickService& service_;
  TcpSessions& sessions_;
  const Secret& secret_;
  Nonces nonces_;
};

}  // namespace brickfs
