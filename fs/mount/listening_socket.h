// SPDX-License-Identifier: Apache-2.0
// The Unix sockets of packets by which others on this machine come to a mount.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

enum class SocketFor { kRoot, kEverybody };

class ListeningSocket {
 public:
  // At `path` in `directory`, which is made; what mounts that were killed left there is taken away. Nobody waits in
  // accept(). EACCES and others.
  static Result<ListeningSocket> open(std::string directory, std::string path, SocketFor whom, int backlog);

  int get() const { return socket_.get(); }
  // Who may connect from now on.
  void admit(SocketFor whom) const;
  // Nobody finds it any more. What is at its path may be another mount's by now, and stays then.
  void remove() const;
  // To be closed, with those who wait to be let in.
  UniqueFd take() { return std::move(socket_); }

 private:
  ListeningSocket(std::string directory, std::string path, UniqueFd socket, dev_t device, ino_t inode);
  bool is_at_path() const;

  std::string directory_;
  std::string path_;
  UniqueFd socket_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace brickfs
