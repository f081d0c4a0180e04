// SPDX-License-Identifier: Apache-2.0
// Accepts RDMA connections for a brick, at any number of addresses. A thread serves each connection for calls, so that
// a slow or hostile peer holds up only itself; lanes need none.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/service/brick_service.h"
#include "server/service/peer_address.h"
#include "server/service/secret_guesses.h"
#include "server/service/silence_watch.h"
#include "server/service/stranger_places.h"
#include "server/verbs/connection.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"

namespace brickfs {

class VerbsListener {
 public:
  // Serves from now on; also calls service.expire_silent() once a second. The service must outlive the listener.
  // ENODEV, EADDRINUSE, EADDRNOTAVAIL, EACCES, EHOSTUNREACH, with one line in `why`.
  static Result<std::unique_ptr<VerbsListener>> open(BrickService& service, const std::vector<ListenUrl>& urls,
                                                     Secret secret, std::string* why);
  // Every connection is cut, every session ended, every thread gone on return.
  ~VerbsListener();
  VerbsListener(const VerbsListener&) = delete;
  VerbsListener& operator=(const VerbsListener&) = delete;

  uint16_t port(size_t number) const;                                 // of the n-th URL
  void use_secret(Secret secret) { secret_.set(std::move(secret)); }  // of connections from now on

 private:
  struct Connection {
    Mutex mutex;
    // Null once its thread has done with it.
    std::unique_ptr<verbs::MessageChannel> channel ABSL_GUARDED_BY(mutex);
    const StrangerPlaces::Number place;
    std::atomic<bool> stranger{true};
    std::atomic<bool> finished{false};
    std::thread thread;

    explicit Connection(StrangerPlaces::Number number) : place(number) {}
    void shut_down();
  };

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
  void start_connection(std::unique_ptr<verbs::MessageChannel> channel, const Nonces& nonces, const PeerAddress& peer);
  Connection& add_connection(const PeerHost& host);
  // Without a thread for it: false.
  void run_connection(Connection& connection, const Nonces& nonces, const PeerAddress& peer, bool serves);
  bool admit(Connection& connection, std::span<const std::byte> first_body);
  void reap_finished();

  BrickService& service_;
  SecretInForce secret_;
  const UniqueFd stop_;  // eventfd
  VerbsDevices devices_;
  VerbsSessions sessions_;
  SecretGuesses guesses_;
  StrangerPlaces places_;
  std::atomic<size_t> admitted_{0};    // connections of no strangers
  const verbs::CmChannelPtr channel_;  // the ids on it go before it
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<const Port*> by_url_;
  // The accepting thread's own.
  std::list<Connection> connections_;
  int last_shortage_ = 0;

  SilenceWatch silence_watch_;
  std::thread thread_;
};

}  // namespace brickfs
