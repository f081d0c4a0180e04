// SPDX-License-Identifier: Apache-2.0
#include "server/tcp/listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "server/tcp/transfers.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/tcp/socket.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kPauseWhenOutOfDescriptors{100};

constexpr size_t kAcceptedAtOnce = 16;  // then those who are there already are looked at

}  // namespace

Result<std::unique_ptr<TcpListener>> TcpListener::open(BrickService& service, const ListenUrl& url, Secret secret) {
  UniqueFd listening = TRY(tcp::listen_on(url.host, url.port));
  const uint16_t port = TRY(tcp::local_port(listening.get()));
  ::fcntl(listening.get(), F_SETFL, ::fcntl(listening.get(), F_GETFL) | O_NONBLOCK);
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return errno_error("eventfd");
  std::unique_ptr<TcpListener> listener(
      new TcpListener(service, std::move(secret), std::move(listening), std::move(stop), port));
  service.announce_tcp(port);
  listener->thread_ = std::thread([raw = listener.get()] { raw->run(); });
  return listener;
}

TcpListener::TcpListener(BrickService& service, Secret secret, UniqueFd listening, UniqueFd stop, uint16_t port)
    : Listener(service, std::move(secret)),
      listening_(std::move(listening)),
      stop_(std::move(stop)),
      port_(port),
      unauthenticated_([this](const PeerAddress& peer, const Nonces& nonces, const Message& call) {
        return judge(peer, nonces, call);
      }) {}

TcpListener::~TcpListener() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  end_all();
}

void TcpListener::run() {
  auto next_reaping = tcp::Clock::now() + limits::kListenerTick;
  std::vector<pollfd> watched;
  while (true) {
    watched = {pollfd{stop_.get(), POLLIN, 0}, pollfd{listening_.get(), POLLIN, 0}};
    unauthenticated_.watch(watched);
    const auto until = std::min(next_reaping, unauthenticated_.next_due().value_or(next_reaping));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - tcp::Clock::now());
    ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (watched[0].revents != 0) return;
    unauthenticated_.receive(std::span(watched).subspan(2));
    const auto now = tcp::Clock::now();
    for (TcpUnauthenticatedPeers::Introduced& peer : unauthenticated_.take_due(now)) introduce(std::move(peer));
    if (watched[1].revents != 0) accept_some();  // who has proved himself has a place of his own by now
    if (now < next_reaping) continue;
    reap_finished();
    next_reaping = now + limits::kListenerTick;
  }
}

void TcpListener::accept_some() {
  for (size_t count = 0; count < kAcceptedAtOnce; ++count) {
    if (!accept_one()) return;
  }
}

bool TcpListener::accept_one() {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  UniqueFd fd(::accept4(listening_.get(), raw, &length, SOCK_CLOEXEC));
  if (fd) {
    short_of_descriptors_ = false;
    if (unauthenticated_.add(std::move(fd), peer_address(raw))) own_counters().refused(Refused::kUnauthenticated);
    return true;
  }
  if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
    return false;  // nobody, or he has gone again
  own_counters().refused(Refused::kDescriptors);
  if (!std::exchange(short_of_descriptors_, true)) {
    log::error("no more connections are accepted: {}; raise the limit (ulimit -n)", std::strerror(errno));
  }
  reap_finished();
  std::this_thread::sleep_for(kPauseWhenOutOfDescriptors);
  return false;
}

void TcpListener::introduce(TcpUnauthenticatedPeers::Introduced peer) {
  auto channel = std::make_unique<tcp::TcpChannel>(std::move(peer.fd));
  if (admitted() >= limits::kConnections) reap_finished();
  auto place = let_in(*channel, peer.peer, peer.nonces, peer.proof, peer.call);
  if (!place.ok()) return;
  tcp::configure(channel->fd());
  Served& served = add(std::move(channel));
  admit(served, std::move(*place));
  start(served, [this, secret = *peer.proof, peer = peer.peer, nonces = peer.nonces,
                 call = std::move(peer.call)](Channel& with) { serve(with, peer, nonces, secret, call); });
}

void TcpListener::serve_transfers(Channel& channel, PeerSession& session) {
  brickfs::serve_transfers(static_cast<tcp::TcpChannel&>(channel).fd(), session, own_counters());
}

}  // namespace brickfs
