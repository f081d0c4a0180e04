// SPDX-License-Identifier: Apache-2.0
// Who asks a server of pages at 127.0.0.1, as a client of HTTP would or not.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "transport/base/unique_fd.h"

namespace brickfs::testing {

class HttpPeer {
 public:
  static constexpr int kPatienceSeconds = 30;  // for one call

  explicit HttpPeer(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) fd_.reset();
  }

  bool is_connected() const { return fd_.valid(); }
  // False: not everything was taken.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Until the server closes.
  std::string receive() {
    std::string all;
    std::array<char, 65536> part{};
    for (ssize_t bytes = 0; (bytes = ::recv(fd_.get(), part.data(), part.size(), 0)) > 0;)
      all.append(part.data(), static_cast<size_t>(bytes));
    return all;
  }
  // Nothing was sent by the server, and it has not closed.
  bool is_kept() const {
    char byte = 0;
    return ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
  }

 private:
  UniqueFd fd_;
};

// What is said to one request, until the server closes; empty: nobody is there.
inline std::string ask(uint16_t port, const std::string& request) {
  HttpPeer peer(port);
  if (!peer.is_connected()) return "";
  (void)peer.send(request);
  return peer.receive();
}

inline std::string get(uint16_t port, const std::string& path) {
  return ask(port, "GET " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
}

}  // namespace brickfs::testing
