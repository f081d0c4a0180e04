// SPDX-License-Identifier: Apache-2.0
#include "server/peers/listener.h"

#include <system_error>
#include <utility>

#include "server/service/server_limits.h"
#include "transport/accept/accept_limits.h"
#include "transport/base/log.h"
#include "transport/base/printable.h"

namespace brickfs {

Listener::Listener(BrickService& service, Secret secret)
    : service_(service),
      secrets_({std::move(secret)}),
      admitted_(limits::kConnectionsKept, limits::kConnections),
      turned_away_(limits::kBetweenLines),
      no_thread_(limits::kBetweenLines),
      not_encrypted_(limits::kBetweenLines) {
  service_.watch_silence();
}

void Listener::Served::shut_down() {
  MutexLock lock(mutex);
  if (channel) channel->shut_down();
}

Listener::Served& Listener::add(Served& served, std::unique_ptr<Channel> channel) {
  MutexLock lock(served.mutex);
  served.channel = std::move(channel);
  return served;
}

void Listener::start(Served& served, std::function<void(Channel&)> serve, std::function<void()> ended) {
  const auto run = [&served, ended = std::move(ended)](const std::function<void(Channel&)>& with) {
    Channel* channel = nullptr;
    {
      MutexLock lock(served.mutex);
      channel = served.channel.get();
    }
    if (with) with(*channel);
    std::unique_ptr<Channel> gone;
    {
      MutexLock lock(served.mutex);
      gone = std::move(served.channel);
    }
    gone.reset();
    if (ended) ended();
    served.admitted = {};
    served.finished.store(true, std::memory_order_release);
  };
  try {
    served.thread = std::thread([run, serve = std::move(serve)] { run(serve); });
  } catch (const std::system_error& error) {
    if (const auto others = no_thread_.due())
      log::error("a connection is turned away, and {} before it: no thread for it ({})", *others, error.what());
    run(nullptr);
    connections_.pop_back();
  }
}

void Listener::reap_finished() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    if (at->finished.load(std::memory_order_acquire)) {
      at->thread.join();
      at = connections_.erase(at);
    } else {
      ++at;
    }
  }
}

// The sessions end before their threads are waited for: a call that takes long is given up by that.
void Listener::end_all() {
  for (Served& served : connections_) served.shut_down();
  sessions_.end_all();
  for (Served& served : connections_) served.thread.join();
}

// A further connection of a session is its own client's: by a key with other rights nobody joins it.
std::vector<Credential> Listener::known_for(const Message& call) {
  const uint16_t kind = call.header.kind;
  if (kind == static_cast<uint16_t>(wire::Kind::kAdminister)) return credentials_of(admin_secrets_.get());
  const auto token = token_in(kind, call.body);
  const auto session = token ? sessions_.find(*token) : nullptr;
  if (session != nullptr && session->proved().key) return {session->proved()};
  const auto volume = volume_in(kind, call.body);
  const auto keys = volume ? service_.keys_of(*volume) : std::nullopt;
  return keys ? credentials_of(*keys) : credentials_of(secrets_.get());
}

// Who brings the token of a session has proved enough not to be taken for one who guesses.
std::optional<FirstCallVerdict> Listener::judge(const PeerAddress& peer, const Nonces& nonces, const Message& call) {
  const auto now = SecretGuesses::Clock::now();
  const auto token = token_in(call.header.kind, call.body);
  const bool has_session = token && sessions_.find(*token) != nullptr;
  if (!has_session && !guesses_.may_try(peer.host, now)) {
    counters_.refused(Refused::kUnauthenticated);
    return std::nullopt;
  }
  FirstCallVerdict verdict{check_first_call(known_for(call), nonces, call.header.kind, call.body), {}};
  if (verdict.proof.code() != EACCES) return verdict;
  verdict.delay = guesses_.delay(peer.host, now);
  note_guess(guesses_, peer);
  return verdict;
}

std::optional<Secret> Listener::find_secret(const PeerAddress& peer, KeyId id) {
  if (!guesses_.may_try(peer.host, SecretGuesses::Clock::now())) return std::nullopt;
  for (const auto& secrets : {secrets_.get(), admin_secrets_.get()})
    for (const Secret& secret : secrets)
      if (!secret.bytes.empty() && key_id_of(secret) == id) return secret;
  return service_.find_key(id);
}

void Listener::note_wrong_secret(const PeerAddress& peer) {
  if (!guesses_.may_try(peer.host, SecretGuesses::Clock::now())) return counters_.refused(Refused::kUnauthenticated);
  counters_.refused(Refused::kSecret);
  note_guess(guesses_, peer);
}

void Listener::note_not_encrypted(const PeerAddress& peer) {
  counters_.refused(Refused::kOther);
  if (const auto others = not_encrypted_.due())
    log::warn("{} is turned away, and {} before it: it does not ask for TLS (tls=on)", peer.text, *others);
}

Result<AdmittedConnections::Place> Listener::let_in(Channel& channel, const PeerAddress& peer, const Nonces& nonces,
                                                    const Result<Credential>& proof, const Message& call) {
  if (!proof.ok()) counters_.refused(refused_with(proof.code()));
  if (proof.code() == EACCES || proof.code() == EPERM) Connection::refuse_unauthenticated(channel, call, proof.code());
  if (!proof.ok()) return proof.error();
  const AdmittedConnections::Owner owner = owner_of(call.header.kind, call.body, sessions_);
  if (auto place = admitted_.enter(owner)) return place;
  counters_.refused(Refused::kConnections);
  if (const auto others = turned_away_.due()) {
    log::warn("{} connections: {} of volume {} is turned away, and {} before it", admitted(), peer.text,
              printable(owner.volume), *others);
  }
  return Connection::refuse(channel, proof->secret, nonces, call, EUSERS);
}

void Listener::admit(Served& served, AdmittedConnections::Place place) {
  counters_.admitted();
  served.admitted = std::move(place);
}

void Listener::serve(Channel& channel, const PeerAddress& peer, const Nonces& nonces, const Credential& proved,
                     const Message& call) {
  Connection(channel, peer.text, nonces, proved, {service_, sessions_, *this, counters_}).serve(call);
}

}  // namespace brickfs
