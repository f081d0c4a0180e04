// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/brickfs_end.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kServerAnswers{2'000};

}  // namespace

BrickfsEnd::BrickfsEnd(const std::string& device_number) {
  const std::string path = umount_socket(device_number);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made || ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
  socket_ = std::move(made);
}

// A packet; empty: none.
std::string BrickfsEnd::receive(std::chrono::milliseconds most) {
  pollfd one{socket_.get(), POLLIN, 0};
  if (::poll(&one, 1, static_cast<int>(most.count())) <= 0) return {};
  std::string packet(kStatePacketBytes, '\0');
  const ssize_t bytes = ::recv(socket_.get(), packet.data(), packet.size(), 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (bytes <= 0) {
    socket_.reset();
    return {};
  }
  packet.resize(static_cast<size_t>(bytes));
  return packet;
}

bool BrickfsEnd::hear(std::chrono::milliseconds most) {
  auto report = decode_umount_report(receive(most));
  if (!report) return false;
  last_ = std::move(report);
  return true;
}

std::optional<MountState> BrickfsEnd::ask_state(std::chrono::milliseconds most) {
  using Clock = std::chrono::steady_clock;
  tell(kAskState);
  const auto until = Clock::now() + most;
  while (socket_) {  // reports come in between
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) break;
    const std::string packet = receive(left);
    if (packet.starts_with(kStateBegins)) return decode_mount_state(packet);
  }
  return std::nullopt;
}

pid_t BrickfsEnd::pid() const {
  ucred peer{};
  socklen_t length = sizeof(peer);
  const bool told = socket_ && ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  return told ? peer.pid : 0;
}

void BrickfsEnd::tell(std::string_view word) {
  if (socket_) (void)!::send(socket_.get(), word.data(), word.size(), MSG_NOSIGNAL);
}

std::optional<UmountReport> ask_server(const std::string& device_number) {
  BrickfsEnd server(device_number);
  if (server.gone() || !server.hear(kServerAnswers)) return std::nullopt;
  return server.last();
}

}  // namespace brickfs
