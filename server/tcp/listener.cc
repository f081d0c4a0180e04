// SPDX-License-Identifier: Apache-2.0
#include "server/tcp/listener.h"

#include <utility>

#include "server/tcp/transfers.h"
#include "transport/brick/limits.h"
#include "transport/tcp/socket.h"

namespace brickfs {

Result<std::unique_ptr<TcpListener>> TcpListener::open(BrickService& service, const ListenUrl& url, Secret secret,
                                                       TlsMode tls) {
  std::vector<std::unique_ptr<TcpAcceptor>> acceptors;
  acceptors.push_back(TRY(TcpAcceptor::open(url.host, url.port)));
  service.announce_tcp(acceptors.front()->port());
  std::unique_ptr<TcpListener> listener(new TcpListener(service, std::move(secret), std::move(acceptors), tls));
  listener->accept();
  return listener;
}

void TcpListener::accept() {
  const auto reap = [this] {
    MutexLock lock(accepting_);
    reap_finished();
  };
  TcpAcceptor::Hooks hooks;
  hooks.judge = [this](const PeerAddress& peer, const Nonces& nonces, const Message& call) {
    return judge(peer, nonces, call);
  };
  hooks.tls.mode = tls_;
  hooks.tls.find = [this](const PeerAddress& peer, KeyId id) { return find_secret(peer, id); };
  hooks.tls.refused = [this](const PeerAddress& peer) { note_wrong_secret(peer); };
  hooks.tls.missing = [this](const PeerAddress& peer) { note_not_encrypted(peer); };
  hooks.introduced = [this](TcpUnauthenticatedPeers::Introduced peer) {
    MutexLock lock(accepting_);
    introduce(std::move(peer));
  };
  hooks.tick = reap;
  hooks.displaced = [this] { own_counters().refused(Refused::kUnauthenticated); };
  hooks.out_of_descriptors = [this, reap] {
    own_counters().refused(Refused::kDescriptors);
    reap();
  };
  for (const auto& acceptor : acceptors_) acceptor->start(hooks);
}

TcpListener::~TcpListener() { TcpListener::stop(); }

void TcpListener::stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& acceptor : acceptors_) acceptor->stop();
  end_all();
}

void TcpListener::introduce(TcpUnauthenticatedPeers::Introduced peer) {
  auto channel = std::make_unique<tcp::TcpChannel>(std::move(peer.stream));
  if (admitted() >= limits::kConnections) reap_finished();
  auto place = let_in(*channel, peer.peer, peer.nonces, peer.proof, peer.call);
  if (!place.ok()) return;
  tcp::configure(channel->fd());
  Served& served = add(std::move(channel));
  admit(served, std::move(*place));
  start(served, [this, proved = *peer.proof, peer = peer.peer, nonces = peer.nonces,
                 call = std::move(peer.call)](Channel& with) { serve(with, peer, nonces, proved, call); });
}

void TcpListener::serve_transfers(Channel& channel, PeerSession& session) {
  brickfs::serve_transfers(static_cast<tcp::TcpChannel&>(channel).stream(), session, own_counters());
}

}  // namespace brickfs
