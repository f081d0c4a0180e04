// SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections for a brick. Who has proved that he knows the secret gets a thread, so that a slow or hostile
// peer holds up only itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "server/peers/listener.h"
#include "server/service/brick_service.h"
#include "transport/accept/tcp_acceptor.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/brick/tls_mode.h"

namespace brickfs {

class TcpListener : public Listener {
 public:
  // Serves from now on. The service must outlive the listener. Errors as TcpAcceptor::open().
  static Result<std::unique_ptr<TcpListener>> open(BrickService& service, const ListenUrl& url, Secret secret,
                                                   TlsMode tls = TlsMode::kOn);
  // Every connection is cut, every session ended, every thread gone on return.
  ~TcpListener() override;

  std::string_view transport() const override { return "tcp"; }
  bool moves_bytes() const override { return true; }
  uint16_t port(size_t number = 0) const { return acceptors_[number]->port(); }  // of the n-th URL

 protected:
  TcpListener(BrickService& service, Secret secret, std::vector<std::unique_ptr<TcpAcceptor>> acceptors, TlsMode tls)
      : Listener(service, std::move(secret)), acceptors_(std::move(acceptors)), tls_(tls) {}
  void accept();
  // Of who derives, at its end: as the destructor.
  void stop();

 private:
  std::shared_ptr<RemoteAccess> make_access() override { return nullptr; }
  bool knows(wire::Role role) const override { return role == wire::Role::kTransfers || role == wire::Role::kCalls; }
  void serve_transfers(Channel& channel, PeerSession& session) override;
  void introduce(TcpUnauthenticatedPeers::Introduced peer);

  const std::vector<std::unique_ptr<TcpAcceptor>> acceptors_;
  const TlsMode tls_;
  Mutex accepting_;  // of whichever has accepted somebody
  bool stopped_ = false;
};

}  // namespace brickfs
