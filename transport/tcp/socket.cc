// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/socket.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "transport/brick/limits.h"
#include "transport/brick/unknown_host.h"

namespace brickfs::tcp {
namespace {

constexpr int kListenBacklog = 4096;  // the system has its own bound
constexpr int kProbeSeconds = 5;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const std::string& host, uint16_t port, bool to_listen) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code == EAI_SYSTEM) return errno_error("host name lookup");
  if (code != 0) return Error(EHOSTUNREACH, kUnknownHost);
  return Addresses(list);
}

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof(value)); }

// What a failed socket call says about the connection.
Error connection_error(int code) {
  switch (code) {
    case ETIMEDOUT:
    case EAGAIN:
      return Error(ETIMEDOUT, "peer does not answer");
    case ENOMEM:
    case ENOBUFS:
      return Error(ENOMEM, "socket");
    default:
      return Error(ENOTCONN, "connection is gone");
  }
}

Status wait_for(int fd, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Error(ETIMEDOUT, "peer does not answer");
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return errno_error("poll");
  }
}

Result<UniqueFd> connect_one(const addrinfo& address, Deadline deadline) {
  UniqueFd fd(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!fd) return errno_error("socket");
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno_error("connect");
    TRY(wait_for(fd.get(), POLLOUT, deadline));
    int code = 0;
    socklen_t length = sizeof(code);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &length) != 0) return errno_error("connect");
    if (code != 0) return Error(code, "connect");
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return errno_error("socket flags");
  configure(fd.get());
  return fd;
}

}  // namespace

Result<UniqueFd> connect_to(const std::string& host, uint16_t port, Deadline deadline) {
  const Addresses list = TRY(resolve(host, port, false));
  int64_t left = 0;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) ++left;
  Error error(EHOSTUNREACH, "no address for this host");
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next, --left) {
    const auto now = Clock::now();
    auto fd = connect_one(*at, now + (deadline - now) / left);  // so that a silent address leaves time for the next
    if (fd.ok()) return fd;
    error = fd.error();
  }
  if (error.is(ECONNREFUSED) || error.is(ETIMEDOUT)) return error;
  return Error(EHOSTUNREACH, "host cannot be reached");
}

Result<UniqueFd> listen_on(const std::string& host, uint16_t port) {
  const Addresses list = TRY(resolve(host, port, true));
  UniqueFd fd(::socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, list->ai_protocol));
  if (!fd) return errno_error("socket");
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0) return errno_error("bind");
  if (::listen(fd.get(), kListenBacklog) != 0) return errno_error("listen");
  return fd;
}

Result<uint16_t> local_port(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return errno_error("getsockname");
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void configure(int fd) {
  using std::chrono::duration_cast;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limits::kProgressTimeout.count()));
  timeval progress{};
  progress.tv_sec = duration_cast<std::chrono::seconds>(limits::kProgressTimeout).count();
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &progress, sizeof(progress));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &progress, sizeof(progress));
}

void shut_down(int fd) { ::shutdown(fd, SHUT_RDWR); }

bool peer_has_gone(int fd) {
  pollfd entry{fd, POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0;
}

bool has_unacknowledged(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

bool has_unread(int fd) {
  int bytes = 0;
  return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

std::chrono::milliseconds StallClock::look(int fd, bool under_way) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  const bool is_known = under_way && ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
  const auto now = Clock::now();
  MutexLock lock(mutex_);
  if (!is_known) {
    since_.reset();
    return {};
  }
  // Once all has been taken it is for what comes back; that requests behind it are taken is no progress of it.
  const bool sends = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
  const uint64_t moved = info.tcpi_bytes_received + (sends ? info.tcpi_bytes_acked : 0);
  if (std::exchange(moved_bytes_, moved) != moved || !since_) since_ = now;
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - *since_);
}

void IoCursor::advance(size_t bytes) {
  while (!parts_.empty() && bytes >= parts_.front().iov_len) {
    bytes -= parts_.front().iov_len;
    parts_ = parts_.subspan(1);
  }
  if (bytes == 0) return;
  iovec& first = parts_.front();
  first.iov_base = static_cast<std::byte*>(first.iov_base) + bytes;
  first.iov_len -= bytes;
}

iovec to_iovec(std::span<const std::byte> bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

Status send_all(int fd, std::span<iovec> parts) {
  IoCursor left(parts);
  while (!left.done()) {
    msghdr message{};
    message.msg_iov = left.parts().data();
    message.msg_iovlen = left.parts().size();
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return connection_error(errno);
    left.advance(static_cast<size_t>(sent));
  }
  return {};
}

Status receive_all(int fd, std::span<iovec> parts) {
  IoCursor left(parts);
  while (!left.done()) {
    const auto got = receive_some(fd, left.parts());
    if (!got.ok())
      return got.error().is(EAGAIN) ? Error(ETIMEDOUT, "peer stopped in the middle of a frame") : got.error();
    left.advance(*got);
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes) {
  iovec part = to_iovec(bytes);
  return receive_all(fd, std::span(&part, 1));
}

Result<size_t> receive_some(int fd, std::span<const iovec> parts, int flags) {
  while (true) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    const ssize_t got = ::recvmsg(fd, &message, flags);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return Error(ENOTCONN, "peer closed the connection");
    if (errno == EAGAIN) return Error(EAGAIN, "nothing came");
    if (errno != EINTR) return connection_error(errno);
  }
}

Result<size_t> send_some(int fd, std::span<const iovec> parts) {
  while (true) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN) return size_t{0};
    if (errno != EINTR) return connection_error(errno);
  }
}

Status wait_readable(int fd, Deadline deadline) { return wait_for(fd, POLLIN, deadline); }
Status wait_writable(int fd, Deadline deadline) { return wait_for(fd, POLLOUT, deadline); }

Status receive_before(int fd, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    TRY(wait_readable(fd, deadline));
    const iovec part = to_iovec(bytes);
    bytes = bytes.subspan(TRY(receive_some(fd, std::span(&part, 1))));
  }
  return {};
}

}  // namespace brickfs::tcp
