// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/listening_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace brickfs {

Result<UniqueFd> listen_at(const char* directory, const std::string& path, SocketFor whom, int backlog) {
  constexpr const char* kWhat = "a socket of the mount";
  const bool for_all = whom == SocketFor::kEverybody;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Error(ENAMETOOLONG, kWhat);
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::mkdir(directory, for_all ? 0755 : 0700) != 0 && errno != EEXIST)
    return errno_error("the directory of a mount's socket");
  if (for_all && ::chmod(directory, 0755) != 0) return errno_error("the directory of a mount's socket");
  UniqueFd socket_fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd) return errno_error(kWhat);
  ::unlink(path.c_str());
  if (::bind(socket_fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return errno_error(kWhat);
  if (for_all && ::chmod(path.c_str(), 0666) != 0) return errno_error(kWhat);
  if (::listen(socket_fd.get(), backlog) != 0) return errno_error(kWhat);
  return socket_fd;
}

}  // namespace brickfs
