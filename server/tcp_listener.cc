// SPDX-License-Identifier: Apache-2.0
#include "server/tcp_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <system_error>

#include "server/tcp_connection.h"
#include "transport/base/log.h"
#include "transport/limits.h"
#include "transport/tcp/socket.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kPauseWhenOutOfDescriptors{100};

std::string describe(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
}

}  // namespace

Result<std::unique_ptr<TcpListener>> TcpListener::open(BrickService& service, const ListenUrl& url, Secret secret) {
  UniqueFd listening = TRY(tcp::listen_on(url.host, url.port));
  const uint16_t port = TRY(tcp::local_port(listening.get()));
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
      port_(port) {}

TcpListener::~TcpListener() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (Connection& connection : connections_) tcp::shut_down(connection.fd.get());
  for (Connection& connection : connections_) connection.thread.join();
}

void TcpListener::run() {
  auto next_tick = tcp::Clock::now() + limits::kListenerTick;
  while (true) {
    std::array<pollfd, 2> watched = {pollfd{listening_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_tick - tcp::Clock::now());
    ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (watched[1].revents != 0) return;
    if (watched[0].revents != 0) accept_one();
    if (tcp::Clock::now() < next_tick) continue;
    tick();
    next_tick = tcp::Clock::now() + limits::kListenerTick;
  }
}

void TcpListener::tick() {
  reap_finished();
  sessions_.touch_calling();
  service_.expire_silent();
}

void TcpListener::accept_one() {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  UniqueFd fd(::accept4(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC));
  if (!fd) {
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;  // that peer has gone again
    if (!full_)
      log::error("no more connections are accepted: {}; raise the limit (ulimit -n)", std::strerror(errno));
    full_ = true;
    reap_finished();
    std::this_thread::sleep_for(kPauseWhenOutOfDescriptors);
    return;
  }
  if (connections_.size() >= limits::kConnections) reap_finished();
  if (connections_.size() >= limits::kConnections) {
    if (!full_) log::warn("{} connections: more are turned away", connections_.size());
    full_ = true;
    return;
  }
  full_ = false;
  tcp::configure(fd.get());
  start_connection(std::move(fd), describe(address));
}

void TcpListener::start_connection(UniqueFd fd, std::string peer) {
  Connection& connection = connections_.emplace_back();
  connection.fd = std::move(fd);
  try {
    connection.thread = std::thread([this, &connection, peer = std::move(peer)] {
      TcpConnection(connection.fd.get(), peer, service_, sessions_, secret_).serve();
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
