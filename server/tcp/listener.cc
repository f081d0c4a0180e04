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
#include <system_error>
#include <utility>
#include <vector>

#include "server/service/first_call.h"
#include "server/tcp/connection.h"
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
    : service_(service),
      secret_(std::move(secret)),
      listening_(std::move(listening)),
      stop_(std::move(stop)),
      port_(port),
      strangers_([this](const PeerHost& host, const tcp::Frame& call) { return delay_of(host, call); }),
      silence_watch_(service) {}

// The sessions end before their threads are waited for: a call that takes long is given up by that.
TcpListener::~TcpListener() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (Connection& connection : connections_) tcp::shut_down(connection.fd.get());
  sessions_.end_all();
  for (Connection& connection : connections_) connection.thread.join();
}

void TcpListener::run() {
  auto next_reaping = tcp::Clock::now() + limits::kListenerTick;
  std::vector<pollfd> watched;
  while (true) {
    watched = {pollfd{stop_.get(), POLLIN, 0}, pollfd{listening_.get(), POLLIN, 0}};
    strangers_.watch(watched);
    const auto until = std::min(next_reaping, strangers_.next_due().value_or(next_reaping));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - tcp::Clock::now());
    ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (watched[0].revents != 0) return;
    strangers_.receive(std::span(watched).subspan(2));
    if (watched[1].revents != 0) accept_some();
    const auto now = tcp::Clock::now();
    for (TcpStrangers::Introduced& peer : strangers_.take_due(now)) admit(std::move(peer));
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
    strangers_.add(std::move(fd), peer_address(raw));
    return true;
  }
  if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
    return false;  // nobody, or he has gone again
  if (!std::exchange(short_of_descriptors_, true)) {
    log::error("no more connections are accepted: {}; raise the limit (ulimit -n)", std::strerror(errno));
  }
  reap_finished();
  std::this_thread::sleep_for(kPauseWhenOutOfDescriptors);
  return false;
}

std::chrono::milliseconds TcpListener::delay_of(const PeerHost& host, const tcp::Frame& call) {
  return delay_of_answer(guesses_, host, call.header.kind, call.body,
                         [this](const wire::Token& token) { return sessions_.find(token) != nullptr; });
}

void TcpListener::admit(TcpStrangers::Introduced peer) {
  const Secret secret = secret_.get();
  const Status proved = check_first_call(secret, peer.nonces, peer.call.header.kind, peer.call.body);
  if (proved.code() == EACCES) {
    note_guess(guesses_, peer.peer);
    TcpConnection::refuse_stranger(peer.fd.get(), peer.call);
  }
  if (!proved.ok()) return;
  if (connections_.size() >= limits::kConnections) reap_finished();
  if (!has_room(connections_.size(), peer.call.body)) {
    log::warn("{} connections: {} is turned away", connections_.size(), peer.peer.text);
    TcpConnection::refuse(peer.fd.get(), secret, peer.nonces, peer.call, EUSERS);
    return;
  }
  tcp::configure(peer.fd.get());
  start_connection(std::move(peer));
}

void TcpListener::start_connection(TcpStrangers::Introduced peer) {
  Connection& connection = connections_.emplace_back();
  connection.fd = std::move(peer.fd);
  try {
    connection.thread = std::thread([this, &connection, peer = std::move(peer)] {
      TcpConnection(connection.fd.get(), peer.peer.text, peer.nonces, service_, sessions_, secret_.get())
          .serve(peer.call);
      tcp::shut_down(connection.fd.get());
      connection.finished.store(true, std::memory_order_release);
    });
  } catch (const std::system_error& error) {
    log::error("a connection is turned away: no thread for it ({})", error.what());
    connections_.pop_back();
  }
}

void TcpListener::reap_finished() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    if (at->finished.load(std::memory_order_acquire)) {
      at->thread.join();
      at = connections_.erase(at);
    } else {
      ++at;
    }
  }
}

}  // namespace brickfs
