// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "transport/base/log.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

void notify_service_manager(std::string_view state) {
  const char* variable = std::getenv("NOTIFY_SOCKET");
  if (variable == nullptr) return;
  const std::string_view path = variable;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path) || (path.front() != '/' && path.front() != '@')) {
    log::warn("NOTIFY_SOCKET={}: not the address of a socket", path);
    return;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // an abstract one
  const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                          reinterpret_cast<const sockaddr*>(&address), length) < 0) {
    log::warn("cannot tell the service manager at {}: {}", path, std::strerror(errno));
  }
}

}  // namespace brickfs
