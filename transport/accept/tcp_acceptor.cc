// SPDX-License-Identifier: Apache-2.0
#include "transport/accept/tcp_acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/tcp/socket.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kPauseWhenOutOfDescriptors{100};

constexpr size_t kAcceptedAtOnce = 16;  // then those who are there already are looked at

}  // namespace

Result<std::unique_ptr<TcpAcceptor>> TcpAcceptor::open(const std::string& host, uint16_t port) {
  UniqueFd listening = TRY(tcp::listen_on(host, port));
  const uint16_t bound = TRY(tcp::local_port(listening.get()));
  ::fcntl(listening.get(), F_SETFL, ::fcntl(listening.get(), F_GETFL) | O_NONBLOCK);
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return errno_error("eventfd");
  return std::unique_ptr<TcpAcceptor>(new TcpAcceptor(std::move(listening), std::move(stop), bound));
}

TcpAcceptor::~TcpAcceptor() { stop(); }

void TcpAcceptor::start(Hooks hooks) {
  hooks_ = std::move(hooks);
  unauthenticated_ = std::make_unique<TcpUnauthenticatedPeers>(hooks_.judge, hooks_.tls);
  thread_ = Thread([this] { run(); });
}

void TcpAcceptor::stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  unauthenticated_.reset();
  listening_.reset();
}

void TcpAcceptor::run() {
  auto next_tick = tcp::Clock::now() + limits::kListenerTick;
  std::vector<pollfd> watched;
  while (true) {
    watched = {pollfd{stop_.get(), POLLIN, 0}, pollfd{listening_.get(), POLLIN, 0}};
    unauthenticated_->watch(watched);
    const auto until = std::min(next_tick, unauthenticated_->next_due().value_or(next_tick));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - tcp::Clock::now());
    ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (watched[0].revents != 0) return;
    unauthenticated_->receive(std::span(watched).subspan(2));
    const auto now = tcp::Clock::now();
    for (auto& peer : unauthenticated_->take_due(now)) hooks_.introduced(std::move(peer));
    if (watched[1].revents != 0) accept_some();  // who has proved himself has a place of his own by now
    if (now < next_tick) continue;
    hooks_.tick();
    next_tick = now + limits::kListenerTick;
  }
}

void TcpAcceptor::accept_some() {
  for (size_t count = 0; count < kAcceptedAtOnce; ++count) {
    if (!accept_one()) return;
  }
}

bool TcpAcceptor::accept_one() {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  UniqueFd fd(::accept4(listening_.get(), raw, &length, SOCK_CLOEXEC));
  if (fd) {
    short_of_descriptors_ = false;
    if (unauthenticated_->add(std::move(fd), peer_address(raw))) hooks_.displaced();
    return true;
  }
  if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
    return false;  // nobody, or he has gone again
  if (!std::exchange(short_of_descriptors_, true)) {
    log::error("no more connections are accepted: {}; raise the limit (ulimit -n)", std::strerror(errno));
  }
  hooks_.out_of_descriptors();
  std::this_thread::sleep_for(kPauseWhenOutOfDescriptors);
  return false;
}

}  // namespace brickfs
