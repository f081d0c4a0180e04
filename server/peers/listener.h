// SPDX-License-Identifier: Apache-2.0
// The connections that a brick has accepted, whatever by: a thread serves each peer that has proved that it knows the
// secret, so that a slow or hostile one holds up only itself. Who accepts is the transport's.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "server/peers/admitted_connections.h"
#include "server/peers/connection.h"
#include "server/peers/first_call.h"
#include "server/peers/peer_counters.h"
#include "server/peers/peer_session.h"
#include "server/peers/secrets_in_force.h"
#include "server/service/brick_service.h"
#include "transport/accept/first_call_verdict.h"
#include "transport/accept/occasional_line.h"
#include "transport/accept/peer_address.h"
#include "transport/accept/secret_guesses.h"
#include "transport/accept/unauthenticated_places.h"
#include "transport/base/mutex.h"
#include "transport/brick/channel.h"
#include "transport/brick/proof.h"

namespace brickfs {

class Listener : protected PeerTransport {
 public:
  ~Listener() override = default;  // of who derives: stops accepting, then end_all()
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Of connections from now on, any of them: the clients', at least one, and the administrator's. Without the latter
  // there are no calls of his.
  void use_secrets(std::vector<Secret> secrets) { secrets_.set(std::move(secrets)); }
  void use_admin_secrets(std::vector<Secret> secrets) { admin_secrets_.set(std::move(secrets)); }
  // By which peers come, for people and metrics: "tcp", "rdma", "fabric".
  virtual std::string_view transport() const = 0;
  // The bytes of blocks pass the brick's processor, so they are counted.
  virtual bool moves_bytes() const = 0;
  const PeerCounters& counters() const { return counters_; }
  size_t admitted() const { return admitted_.count(); }  // connections, now

 protected:
  struct Served {
    Mutex mutex;
    // Null once its thread has done with it.
    std::unique_ptr<Channel> channel ABSL_GUARDED_BY(mutex);
    UnauthenticatedPlaces::Number place = 0;  // of one that is unauthenticated, with a thread; 0: none
    AdmittedConnections::Place admitted;      // its thread's; empty: unauthenticated
    std::atomic<bool> finished{false};
    std::thread thread;
    void shut_down();
  };

  Listener(BrickService& service, Secret secret);

  // The accepting thread's.
  Served& add(std::unique_ptr<Channel> channel) { return add(connections_.emplace_back(), std::move(channel)); }
  // On a thread of its own; `ended` is called there when the channel is gone. The last one that was added.
  void start(Served& served, std::function<void(Channel&)> serve, std::function<void()> ended = nullptr);
  void reap_finished();
  // Every connection is cut, every session ended, every thread gone on return.
  void end_all();
  size_t connections() const { return connections_.size(); }  // also finished ones
  std::list<Served>& served() { return connections_; }

  // Any thread.
  PeerCounters& own_counters() { return counters_; }
  // As soon as a peer's first call is there. None: it is not looked at, and gets no answer.
  std::optional<FirstCallVerdict> judge(const PeerAddress& peer, const Nonces& nonces, const Message& call);
  // By which a peer wants to be known that encrypts what it says. None: it does not exist, or he has tried too often.
  std::optional<Secret> find_secret(const PeerAddress& peer, KeyId id);
  // He did not prove it.
  void note_wrong_secret(const PeerAddress& peer);
  // He does not encrypt, and has to.
  void note_not_encrypted(const PeerAddress& peer);
  // Once its delay is over: the place of one that has proved to know the secret, if there is room; else it is refused.
  Result<AdmittedConnections::Place> let_in(Channel& channel, const PeerAddress& peer, const Nonces& nonces,
                                            const Result<Credential>& proof, const Message& call);
  // From now on it is one that was let in.
  void admit(Served& served, AdmittedConnections::Place place);
  void serve(Channel& channel, const PeerAddress& peer, const Nonces& nonces, const Credential& proved,
             const Message& call);

 private:
  Served& add(Served& served, std::unique_ptr<Channel> channel);
  std::vector<Credential> known_for(const Message& call);  // by one of which it is to be proved

  BrickService& service_;
  PeerCounters counters_;
  SecretsInForce secrets_;
  SecretsInForce admin_secrets_{{}};
  PeerSessions sessions_;
  SecretGuesses guesses_;
  AdmittedConnections admitted_;
  OccasionalLine turned_away_;
  OccasionalLine no_thread_;
  OccasionalLine not_encrypted_;
  std::list<Served> connections_;
};

}  // namespace brickfs
