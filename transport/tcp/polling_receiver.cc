// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/polling_receiver.h"

#include <sys/socket.h>

#include "transport/tcp/socket.h"

namespace brickfs::tcp {

Result<size_t> PollingReceiver::receive_some(int fd, std::span<const iovec> parts, bool alone) {
  Result<size_t> got = Error(EAGAIN, "nothing came");
  const auto has_come = [&] {
    got = tcp::receive_some(fd, parts, MSG_DONTWAIT);
    return got.code() != EAGAIN;
  };
  wait_.begin();
  if (!alone || !wait_.poll(has_come)) got = tcp::receive_some(fd, parts);
  wait_.end();
  return got;
}

}  // namespace brickfs::tcp
