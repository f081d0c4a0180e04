// SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections for a brick. Unauthenticated peers are listened to by the accepting thread, which waits for
// none of them; who has proved that he knows the secret gets a thread, so that a slow or hostile peer holds up only
// itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>

#include "server/peers/listener.h"
#include "server/service/brick_service.h"
#include "server/tcp/unauthenticated_peers.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"

namespace brickfs {

class TcpListener final : public Listener {
 public:
  // Serves from now on. The service must outlive the listener.
  // EADDRINUSE, EADDRNOTAVAIL, EACCES, EHOSTUNREACH (no such name).
  static Result<std::unique_ptr<TcpListener>> open(BrickService& service, const ListenUrl& url, Secret secret);
  // Every connection is cut, every session ended, every thread gone on return.
  ~TcpListener() override;

  std::string_view transport() const override { return "tcp"; }
  bool moves_bytes() const override { return true; }
  uint16_t port() const { return port_; }

 private:
  TcpListener(BrickService& service, Secret secret, UniqueFd listening, UniqueFd stop, uint16_t port);
  std::shared_ptr<RemoteAccess> make_access() override { return nullptr; }
  bool knows(wire::Role role) const override { return role == wire::Role::kTransfers || role == wire::Role::kCalls; }
  void serve_transfers(Channel& channel, PeerSession& session) override;
  void run();
  void accept_some();
  bool accept_one();
  void introduce(TcpUnauthenticatedPeers::Introduced peer);

  const UniqueFd listening_;
  const UniqueFd stop_;  // eventfd
  const uint16_t port_;
  // The accepting thread's own.
  TcpUnauthenticatedPeers unauthenticated_;
  bool short_of_descriptors_ = false;  // said so in the log

  std::thread thread_;
};

}  // namespace brickfs
