// SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections for a brick. Strangers are listened to by the accepting thread, which waits for none of them;
// who has proved that he knows the secret gets a thread, so that a slow or hostile peer holds up only itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>

#include "server/service/brick_service.h"
#include "server/service/secret_guesses.h"
#include "server/service/silence_watch.h"
#include "server/tcp/session.h"
#include "server/tcp/strangers.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"

namespace brickfs {

class TcpListener {
 public:
  // Serves from now on; also calls service.expire_silent() once a second. The service must outlive the listener.
  // EADDRINUSE, EADDRNOTAVAIL, EACCES, EHOSTUNREACH (no such name).
  static Result<std::unique_ptr<TcpListener>> open(BrickService& service, const ListenUrl& url, Secret secret);
  // Every connection is cut, every session ended, every thread gone on return.
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  uint16_t port() const { return port_; }
  void use_secret(Secret secret) { secret_.set(std::move(secret)); }  // of connections from now on

 private:
  struct Connection {
    UniqueFd fd;
    std::atomic<bool> finished{false};
    std::thread thread;
  };

  TcpListener(BrickService& service, Secret secret, UniqueFd listening, UniqueFd stop, uint16_t port);
  void run();
  void accept_some();
  bool accept_one();
  std::chrono::milliseconds delay_of(const PeerHost& host, const tcp::Frame& call);
  void admit(TcpStrangers::Introduced peer);
  void start_connection(TcpStrangers::Introduced peer);
  void reap_finished();

  BrickService& service_;
  SecretInForce secret_;
  const UniqueFd listening_;
  const UniqueFd stop_;  // eventfd
  const uint16_t port_;
  TcpSessions sessions_;
  // The accepting thread's own.
  SecretGuesses guesses_;
  TcpStrangers strangers_;
  std::list<Connection> connections_;
  bool short_of_descriptors_ = false;  // said so in the log

  SilenceWatch silence_watch_;
  std::thread thread_;
};

}  // namespace brickfs
