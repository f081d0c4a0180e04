// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_notify.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "transport/base/log.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

constexpr int kFirstDescriptor = 3;  // SD_LISTEN_FDS_START
constexpr std::string_view kMemoryName = "brick-memory";

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

Status send_to(std::string_view path, std::string_view state, int fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path) || (path.front() != '/' && path.front() != '@')) {
    return Error(EINVAL, "NOTIFY_SOCKET is not the address of a socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // an abstract one
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error("making a socket");
  iovec text{const_cast<char*>(state.data()), state.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  if (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) return errno_error("sending");
  return {};
}

// Those given to this process, by name; none of them is left to programs that it may start.
UniqueFd given_descriptor(std::string_view wanted) {
  UniqueFd found;
  const std::string pid(variable("LISTEN_PID"));
  const std::string count(variable("LISTEN_FDS"));
  if (pid.empty() || std::strtol(pid.c_str(), nullptr, 10) != ::getpid()) return found;
  std::string_view names = variable("LISTEN_FDNAMES");
  for (int i = 0; i < std::strtol(count.c_str(), nullptr, 10); ++i) {
    UniqueFd fd(kFirstDescriptor + i);
    const std::string_view name = names.substr(0, names.find(':'));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
      static_cast<void>(fd.release());  // it is not ours to close
    } else if (name == wanted && !found) {
      found = std::move(fd);
    }
  }
  return found;
}

class ServiceManagerKeeper final : public MemoryKeeper {
 public:
  ServiceManagerKeeper(std::string socket, UniqueFd given) : socket_(std::move(socket)), given_(std::move(given)) {}
  std::string name() const override { return "systemd"; }
  UniqueFd take() override { return std::move(given_); }
  Status keep(int fd) override {
    return send_to(socket_, std::string("FDSTORE=1\nFDPOLL=0\nFDNAME=").append(kMemoryName), fd);
  }

 private:
  const std::string socket_;
  UniqueFd given_;
};

}  // namespace

void notify_service_manager(std::string_view state) {
  const std::string_view path = variable("NOTIFY_SOCKET");
  if (path.data() == nullptr) return;
  const Status sent = send_to(path, state, -1);
  if (!sent.ok()) {
    log::warn("cannot tell the service manager at {}: {}", path, describe(sent.error()));
  }
}

Result<std::shared_ptr<MemoryKeeper>> service_manager_as_keeper() {
  const std::string_view path = variable("NOTIFY_SOCKET");
  if (path.empty()) return Error(EINVAL, "no service manager has started it");
  auto keeper = std::make_shared<ServiceManagerKeeper>(std::string(path), given_descriptor(kMemoryName));
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  return std::shared_ptr<MemoryKeeper>(std::move(keeper));
}

}  // namespace brickfs
