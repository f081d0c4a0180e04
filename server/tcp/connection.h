// SPDX-License-Identifier: Apache-2.0
// One connection of a peer that has proved that it knows the secret, from its first call to its end, on the thread that
// calls serve(). docs/protocol.md.
#pragma once

#include <memory>
#include <string>

#include "server/service/brick_service.h"
#include "server/tcp/session.h"
#include "transport/brick/proof.h"
#include "transport/tcp/frame.h"

namespace brickfs {

class TcpConnection {
 public:
  // Refuses a first call, without waiting for the peer. A stranger gets no proof: it would be something to try guesses
  // of the secret on.
  static void refuse_stranger(int fd, const tcp::Frame& call);
  static void refuse(int fd, const Secret& secret, const Nonces& nonces, const tcp::Frame& call, int code,
                     const Holder& holder = {});

  // `fd` stays the caller's and open meanwhile.
  TcpConnection(int fd, std::string peer, const Nonces& nonces, BrickService& service, TcpSessions& sessions,
                const Secret& secret)
      : fd_(fd), peer_(std::move(peer)), nonces_(nonces), service_(service), sessions_(sessions), secret_(secret) {}

  // Until the peer leaves, misbehaves or is cut off. Precondition: the call's proof is right.
  void serve(const tcp::Frame& call);

 private:
  Status serve_open(const tcp::Frame& frame);
  Status serve_attach(const tcp::Frame& frame);
  Error refuse(const tcp::Frame& frame, int code, const Holder& holder = {}) const;
  Result<std::shared_ptr<TcpSession>> open_session(const tcp::Frame& frame, const OpenRequest& request);

  const int fd_;
  const std::string peer_;  // for the log
  const Nonces nonces_;
  BrickService& service_;
  TcpSessions& sessions_;
  const Secret& secret_;
};

}  // namespace brickfs
