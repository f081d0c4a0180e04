// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/brickfs_end.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace brickfs {

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

bool BrickfsEnd::hear(std::chrono::milliseconds most) {
  pollfd one{socket_.get(), POLLIN, 0};
  if (::poll(&one, 1, static_cast<int>(most.count())) <= 0) return false;
  std::array<char, kUmountPacketBytes> packet{};
  const ssize_t bytes = ::recv(socket_.get(), packet.data(), packet.size(), 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (bytes <= 0) {
    socket_.reset();
    return false;
  }
  auto report = decode_umount_report(std::string_view(packet.data(), static_cast<size_t>(bytes)));
  if (!report) return false;
  last_ = std::move(report);
  return true;
}

void BrickfsEnd::tell(std::string_view word) {
  if (socket_) (void)!::send(socket_.get(), word.data(), word.size(), MSG_NOSIGNAL);
}

}  // namespace brickfs
