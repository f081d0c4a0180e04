// SPDX-License-Identifier: Apache-2.0
// Accepts RDMA connections for a brick, at any number of addresses. A thread serves each connection for calls, so that
// a slow or hostile peer holds up only itself; queue pairs need none.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/peers/listener.h"
#include "server/service/brick_service.h"
#include "server/verbs/access.h"
#include "transport/accept/peer_address.h"
#include "transport/accept/unauthenticated_places.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"

namespace brickfs {

class VerbsListener final : public Listener {
 public:
  // Serves from now on. The service must outlive the listener.
  // ENODEV, EADDRINUSE, EADDRNOTAVAIL, EACCES, EHOSTUNREACH, with one line in `why`.
  static Result<std::unique_ptr<VerbsListener>> open(BrickService& service, const std::vector<ListenUrl>& urls,
                                                     Secret secret, std::string* why);
  // Every connection is cut, every session ended, every thread gone on return.
  ~VerbsListener() override;

  std::string_view transport() const override { return "rdma"; }
  bool moves_bytes() const override { return false; }
  uint16_t port(size_t number) const;  // of the n-th URL

 private:
  // A port, and the addresses of this host at which it is served. A listening id that is bound to an address hears
  // nothing more once that address' link has been down, so it is bound to none, and what comes by others is turned
  // away.
  struct Port {
    verbs::CmIdPtr id;
    std::vector<sockaddr_storage> only;  // empty: any

    uint16_t number() const;
    bool serves(const sockaddr* address) const;
  };

  VerbsListener(BrickService& service, Secret secret, verbs::CmChannelPtr channel, UniqueFd stop);
  Status listen(const ListenUrl& url);
  Result<verbs::CmIdPtr> listen_at(sockaddr* address);
  void run();
  void take_events();
  void accept(rdma_cm_event& event);
  Status accept_calls(verbs::CmIdPtr id, const verbs::ConnectRequest& request, const rdma_conn_param& asked);
  std::shared_ptr<RemoteAccess> make_access() override;
  bool knows(wire::Role role) const override { return role == wire::Role::kCalls || role == wire::Role::kKeeper; }
  void serve_transfers(Channel&, PeerSession&) override {}                   // its queue pairs need nobody
  std::shared_ptr<VerbsAccess> find_by_ticket(const verbs::Ticket& ticket);  // null: nobody offered it
  Status serve_unauthenticated(Served& served, Channel& channel, const PeerAddress& peer, const Nonces& nonces);

  const UniqueFd stop_;  // eventfd
  VerbsDevices devices_;
  Mutex accesses_mutex_;
  std::vector<std::weak_ptr<VerbsAccess>> accesses_ ABSL_GUARDED_BY(accesses_mutex_);  // of sessions
  UnauthenticatedPlaces places_;
  const verbs::CmChannelPtr channel_;  // the ids on it go before it
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<const Port*> by_url_;
  // The accepting thread's own.
  int last_shortage_ = 0;

  std::thread thread_;
};

}  // namespace brickfs
