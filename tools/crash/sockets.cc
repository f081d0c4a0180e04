// SPDX-License-Identifier: Apache-2.0
// The C library's calls on sockets, for those of simulated machines; the others' go on to the system.
#include "tools/crash/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <utility>

#include "transport/brick/limits.h"

namespace brickfs::network {
namespace {

constexpr int kFirst = 1 << 20;  // above all that the system gives
constexpr uint16_t kFirstPort = 40'000;

struct Table {
  std::map<int, SocketPtr> open;
  int next = kFirst;
  uint16_t next_port = kFirstPort;

  int add(SocketPtr socket) {
    open.emplace(next, std::move(socket));
    return next++;
  }
};

Table& table() {
  static Table* const all = new Table;
  return *all;
}

bool is_simulated(int fd) { return fd >= kFirst; }

SocketPtr socket_of(int fd) {
  const auto found = table().open.find(fd);
  return found == table().open.end() ? nullptr : found->second;
}

int refuse(int code) {
  errno = code;
  return -1;
}

short events_of(const Socket& socket, short wanted) {
  const bool is_over = socket.is_at_end || socket.error != 0;
  short events = 0;
  if (!socket.inbox.empty() || !socket.backlog.empty() || socket.events > 0 || is_over) events |= POLLIN;
  if (!socket.is_connecting) events |= POLLOUT;
  if (is_over) events |= POLLRDHUP;
  events &= wanted;
  if (socket.error != 0) events |= POLLERR;
  return events;
}

int look(pollfd* entries, nfds_t count) {
  int ready = 0;
  for (pollfd& entry : std::span(entries, count)) {
    const SocketPtr socket = socket_of(entry.fd);
    entry.revents = socket ? events_of(*socket, entry.events) : static_cast<short>(POLLNVAL);
    ready += entry.revents != 0;
  }
  return ready;
}

int wait_for_events(pollfd* entries, nfds_t count, int timeout_ms) {
  const auto until = timeout_ms < 0 ? fibers::kForEver : fibers::now() + std::chrono::milliseconds(timeout_ms);
  fibers::WaitList changed;
  while (true) {
    if (const int ready = look(entries, count); ready > 0 || timeout_ms == 0) return ready;
    for (const pollfd& entry : std::span(entries, count))
      if (const SocketPtr socket = socket_of(entry.fd)) socket->watchers.push_back(&changed);
    const bool in_time = changed.wait(until);
    for (const pollfd& entry : std::span(entries, count))
      if (const SocketPtr socket = socket_of(entry.fd)) std::erase(socket->watchers, &changed);
    if (!in_time) return look(entries, count);
  }
}

bool is_of_network(int domain, int type) {
  return fibers::machine() != fibers::kOutside && domain == AF_INET &&
         (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM;
}

sockaddr_in address(fibers::Machine machine, uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  made.sin_addr.s_addr = htonl(10u << 24 | machine);
  return made;
}

void give(const sockaddr_in& address, sockaddr* into, socklen_t* length) {
  if (into != nullptr) std::memcpy(into, &address, std::min<size_t>(*length, sizeof(address)));
  if (length != nullptr) *length = sizeof(address);
}

ssize_t take(Socket& socket, const msghdr& into) {
  size_t taken = 0;
  for (const iovec& part : std::span(into.msg_iov, into.msg_iovlen)) {
    const size_t here = std::min(part.iov_len, socket.inbox.size() - taken);
    std::memcpy(part.iov_base, socket.inbox.data() + taken, here);
    taken += here;
  }
  socket.inbox.erase(0, taken);
  return static_cast<ssize_t>(taken);
}

}  // namespace
}  // namespace brickfs::network

using namespace brickfs::network;
namespace fibers = brickfs::fibers;

extern "C" int socket(int domain, int type, int protocol) noexcept {
  if (!is_of_network(domain, type)) return static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  auto made = make_socket(fibers::machine());
  made->flags = (type & SOCK_NONBLOCK) != 0 ? O_NONBLOCK : 0;
  return table().add(std::move(made));
}

extern "C" int eventfd(unsigned count, int flags) noexcept {
  if (fibers::machine() == fibers::kOutside) return static_cast<int>(syscall(SYS_eventfd2, count, flags));
  auto made = make_socket(fibers::machine());
  made->events = count;
  return table().add(std::move(made));
}

extern "C" int close(int fd) {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_close, fd));
  const auto found = table().open.extract(fd);
  if (found.empty()) return refuse(EBADF);
  found.mapped()->is_listening = false;
  send_end(found.mapped());
  return 0;
}

extern "C" int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const auto argument = va_arg(arguments, long);
  va_end(arguments);
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
  const SocketPtr socket = socket_of(fd);
  if (command == F_SETFL) socket->flags = static_cast<int>(argument);
  return command == F_GETFL ? socket->flags : 0;
}

extern "C" int bind(int fd, const sockaddr* to, socklen_t length) noexcept {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_bind, fd, to, length));
  const uint16_t port = ntohs(reinterpret_cast<const sockaddr_in*>(to)->sin_port);
  socket_of(fd)->port = port != 0 ? port : table().next_port++;
  return 0;
}

extern "C" int listen(int fd, int backlog) noexcept {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_listen, fd, backlog));
  socket_of(fd)->is_listening = true;
  return 0;
}

extern "C" int accept4(int fd, sockaddr* from, socklen_t* length, int flags) {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_accept4, fd, from, length, flags));
  const SocketPtr listener = socket_of(fd);
  if (listener->backlog.empty()) return refuse(EAGAIN);
  SocketPtr made = std::move(listener->backlog.front());
  listener->backlog.pop_front();
  give(address(made->peer_machine, 0), from, length);
  return table().add(std::move(made));
}

extern "C" int connect(int fd, const sockaddr* to, socklen_t length) {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_connect, fd, to, length));
  const auto* const at = reinterpret_cast<const sockaddr_in*>(to);
  connect(socket_of(fd), ntohl(at->sin_addr.s_addr) & 0xff, ntohs(at->sin_port));
  return refuse(EINPROGRESS);
}

extern "C" int getsockname(int fd, sockaddr* into, socklen_t* length) noexcept {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_getsockname, fd, into, length));
  give(address(socket_of(fd)->machine, socket_of(fd)->port), into, length);
  return 0;
}

extern "C" int getsockopt(int fd, int level, int name, void* value, socklen_t* length) noexcept {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_getsockopt, fd, level, name, value, length));
  if (level != SOL_SOCKET || name != SO_ERROR) return refuse(ENOPROTOOPT);
  *static_cast<int*>(value) = socket_of(fd)->error;
  return 0;
}

extern "C" int setsockopt(int fd, int level, int name, const void* value, socklen_t length) noexcept {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_setsockopt, fd, level, name, value, length));
  return 0;
}

extern "C" int shutdown(int fd, int how) noexcept {
  if (!is_simulated(fd)) return static_cast<int>(syscall(SYS_shutdown, fd, how));
  const SocketPtr socket = socket_of(fd);
  send_end(socket);
  socket->is_at_end = true;
  socket->changed();
  return 0;
}

extern "C" int poll(pollfd* entries, nfds_t count, int timeout_ms) {
  if (count == 0 || !is_simulated(entries[0].fd))
    return static_cast<int>(syscall(SYS_poll, entries, count, timeout_ms));
  fibers::maybe_yield();
  return wait_for_events(entries, count, timeout_ms);
}

extern "C" ssize_t write(int fd, const void* bytes, size_t length) {
  if (!is_simulated(fd)) return syscall(SYS_write, fd, bytes, length);
  ++socket_of(fd)->events;
  socket_of(fd)->changed();
  return static_cast<ssize_t>(length);
}

extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!is_simulated(fd)) return syscall(SYS_sendmsg, fd, message, flags);
  fibers::maybe_yield();
  const SocketPtr socket = socket_of(fd);
  if (socket->error != 0 || socket->has_ended) return refuse(EPIPE);
  std::string bytes;
  for (const iovec& part : std::span(message->msg_iov, message->msg_iovlen))
    bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
  const auto sent = static_cast<ssize_t>(bytes.size());
  send(socket, std::move(bytes));
  return sent;
}

extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!is_simulated(fd)) return syscall(SYS_recvmsg, fd, message, flags);
  const SocketPtr socket = socket_of(fd);
  pollfd entry{fd, POLLIN, 0};
  const bool waits = (flags & MSG_DONTWAIT) == 0 && (socket->flags & O_NONBLOCK) == 0;
  wait_for_events(&entry, 1, waits ? static_cast<int>(brickfs::limits::kProgressTimeout.count()) : 0);
  if (!socket->inbox.empty()) return take(*socket, *message);
  if (socket->error != 0) return refuse(socket->error);
  return socket->is_at_end ? 0 : refuse(EAGAIN);
}
