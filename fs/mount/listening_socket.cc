// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/listening_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace brickfs {
namespace {

constexpr const char* kWhat = "a socket of the mount";

bool set_path(sockaddr_un& address, const std::string& path) {
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

// Asked by a socket of another kind, of which who listens there notices nothing.
bool is_left_behind(const std::string& path) {
  sockaddr_un address{};
  const UniqueFd asking(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return asking && set_path(address, path) &&
         ::connect(asking.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

// With the lock: between the look and the unlink nobody else makes a socket of that name.
void sweep(const std::string& directory) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(directory, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->is_socket(ignored) && is_left_behind(entry->path())) ::unlink(entry->path().c_str());
  }
}

// Held while a socket is made: root's, so nobody else keeps it.
Result<UniqueFd> lock(const std::string& directory) {
  UniqueFd file(::open((directory + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::flock(file.get(), LOCK_EX) != 0) return errno_error(kWhat);
  return file;
}

}  // namespace

ListeningSocket::ListeningSocket(std::string directory, std::string path, UniqueFd socket, dev_t device, ino_t inode)
    : directory_(std::move(directory)),
      path_(std::move(path)),
      socket_(std::move(socket)),
      device_(device),
      inode_(inode) {}

Result<ListeningSocket> ListeningSocket::open(std::string directory, std::string path, SocketFor whom, int backlog) {
  const bool for_all = whom == SocketFor::kEverybody;
  sockaddr_un address{};
  if (!set_path(address, path)) return Error(ENAMETOOLONG, kWhat);
  if (::mkdir(directory.c_str(), for_all ? 0755 : 0700) != 0 && errno != EEXIST)
    return errno_error("the directory of a mount's socket");
  if (for_all && ::chmod(directory.c_str(), 0755) != 0) return errno_error("the directory of a mount's socket");
  const UniqueFd locked = TRY(lock(directory));
  sweep(directory);
  UniqueFd socket_fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd) return errno_error(kWhat);
  ::unlink(path.c_str());
  struct stat made {};
  if (::bind(socket_fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::lstat(path.c_str(), &made) != 0)
    return errno_error(kWhat);
  if (for_all && ::chmod(path.c_str(), 0666) != 0) return errno_error(kWhat);
  if (::listen(socket_fd.get(), backlog) != 0) return errno_error(kWhat);
  return ListeningSocket(std::move(directory), std::move(path), std::move(socket_fd), made.st_dev, made.st_ino);
}

// With the lock. Its inode is in use as long as the socket is, so its number is no other's.
bool ListeningSocket::is_at_path() const {
  struct stat there {};
  return ::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_;
}

void ListeningSocket::admit(SocketFor whom) const {
  const auto locked = lock(directory_);
  if (locked.ok() && is_at_path()) ::chmod(path_.c_str(), whom == SocketFor::kEverybody ? 0666 : 0600);
}

void ListeningSocket::remove() const {
  const auto locked = lock(directory_);
  if (locked.ok() && is_at_path()) ::unlink(path_.c_str());
}

}  // namespace brickfs
