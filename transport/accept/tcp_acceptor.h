// SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections. Unauthenticated peers are listened to by the accepting thread, which waits for none of them;
// who has sent his first call, whole, is handed over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/accept/tcp_unauthenticated_peers.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class TcpAcceptor {
 public:
  // Called on the accepting thread; none may wait for a peer.
  struct Hooks {
    TcpUnauthenticatedPeers::Judge judge;
    TcpUnauthenticatedPeers::Tls tls;
    std::function<void(TcpUnauthenticatedPeers::Introduced)> introduced;  // its answer is due
    std::function<void()> tick;                                           // every limits::kListenerTick
    std::function<void()> displaced;                                      // an unauthenticated peer, by another one
    std::function<void()> out_of_descriptors;                             // a connection waits until there are some
  };

  // Listens; nobody is accepted before start(). EADDRINUSE, EADDRNOTAVAIL, EACCES, EHOSTUNREACH (no such name).
  static Result<std::unique_ptr<TcpAcceptor>> open(const std::string& host, uint16_t port);
  ~TcpAcceptor();  // as stop()
  uint16_t port() const { return port_; }
  void start(Hooks hooks);  // once
  // No hook is called any more on return, and who comes is refused at once, as where nobody listens. Idempotent.
  void stop();

 private:
  TcpAcceptor(UniqueFd listening, UniqueFd stop, uint16_t port)
      : listening_(std::move(listening)), stop_(std::move(stop)), port_(port) {}
  void run();
  void accept_some();
  bool accept_one();

  UniqueFd listening_;   // until stop()
  const UniqueFd stop_;  // eventfd
  const uint16_t port_;
  Hooks hooks_;
  // The accepting thread's own.
  std::unique_ptr<TcpUnauthenticatedPeers> unauthenticated_;
  bool short_of_descriptors_ = false;  // said so in the log

  Thread thread_;
};

}  // namespace brickfs
