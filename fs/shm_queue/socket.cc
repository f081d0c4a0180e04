// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace brickfs::shm_queue {
namespace {

constexpr size_t kMostDescriptors = 253;  // of a message, by the kernel (SCM_MAX_FD)

std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> taken;
  const cmsghdr* const part = CMSG_FIRSTHDR(&message);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return taken;
  const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; ++i) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
    taken.emplace_back(descriptor);
  }
  return taken;
}

}  // namespace

std::string socket_path(std::string_view device_number) {
  return std::string(kSocketDirectory) + "/" + std::string(device_number);
}

Status send_packet(int socket, const void* data, size_t length, int descriptor) {
  iovec part{const_cast<void*>(data), length};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET) return Error(ENOTCONN, "the other end of a queue has gone");
  return errno_error("a message of a queue");
}

// There is room for all descriptors: what does not fit the kernel would close at once, by this thread.
Status receive_packet(int socket, void* data, size_t length, UniqueFd* descriptor, std::vector<UniqueFd>* others) {
  iovec part{data, length};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && errno == ECONNRESET) return Error(ENOTCONN, "the other end of a queue has gone");
  if (received < 0) return errno_error("a message of a queue");
  std::vector<UniqueFd> taken = take_descriptors(message);
  *descriptor = UniqueFd();
  if (!taken.empty()) {
    *descriptor = std::move(taken.front());
    taken.erase(taken.begin());
  }
  if (others != nullptr) *others = std::move(taken);
  if (received == 0) return Error(ENOTCONN, "the other end of a queue has gone");
  if (static_cast<size_t>(received) != length || (message.msg_flags & MSG_TRUNC) != 0)
    return Error(EPROTO, "a message of a queue");
  if (!*descriptor && (message.msg_flags & MSG_CTRUNC) != 0) return Error(EMFILE, "the descriptor of a message");
  return {};
}

}  // namespace brickfs::shm_queue
