// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/polling_receiver.h"

namespace brickfs::tcp {

Result<size_t> PollingReceiver::receive_some(Stream& stream, std::span<const iovec> parts, bool alone) {
  Result<size_t> got = Error(EAGAIN, "nothing came");
  const auto has_come = [&] {
    got = stream.receive_some(parts, Stream::Wait::kNot);
    return got.code() != EAGAIN;
  };
  wait_.begin();
  if (!alone || !wait_.poll(has_come)) got = stream.receive_some(parts);
  wait_.end();
  return got;
}

}  // namespace brickfs::tcp
