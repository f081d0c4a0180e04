// SPDX-License-Identifier: Apache-2.0
// Accepts clients over libfabric: a TCP listener for calls at each URL, and endpoints as sessions ask for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/fabric/access.h"
#include "server/service/brick_service.h"
#include "server/tcp/listener.h"
#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"

namespace brickfs {

class FabricListener final : public TcpListener {
 public:
  // Serves from now on, at all URLs: a client's endpoints may come by several. The service must outlive the listener.
  // EPROTONOSUPPORT: no provider there that gives what is needed; else as TcpAcceptor::open(). With one line in `why`.
  // `tls` is about calls; what endpoints carry is not encrypted.
  static Result<std::unique_ptr<FabricListener>> open(BrickService& service, const std::vector<ListenUrl>& urls,
                                                      Secret secret, std::string* why, TlsMode tls = TlsMode::kOn);
  ~FabricListener() override { stop(); }

  std::string_view transport() const override { return "fabric"; }
  bool moves_bytes() const override { return false; }

 private:
  struct Served {
    std::string host;  // in numbers; empty: any
    std::string provider;
    uint16_t port = 0;
  };

  FabricListener(BrickService& service, Secret secret, std::vector<std::unique_ptr<TcpAcceptor>> acceptors, TlsMode tls,
                 std::vector<Served> served)
      : TcpListener(service, std::move(secret), std::move(acceptors), tls), served_(std::move(served)) {}
  // Without its port.
  static Result<Served> try_out(const ListenUrl& url, std::string* why);

  std::shared_ptr<RemoteAccess> make_access() override;
  bool knows(wire::Role role) const override { return role == wire::Role::kCalls || role == wire::Role::kKeeper; }
  void serve_transfers(Channel&, PeerSession&) override {}  // its endpoints need nobody
  Result<std::unique_ptr<FabricServedEndpoint>> open_endpoint(const calls::Endpoint& asked) const;

  const std::vector<Served> served_;
};

}  // namespace brickfs
