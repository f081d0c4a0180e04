// SPDX-License-Identifier: Apache-2.0
// The requests of a connection for transfers, received ahead as far as they are small: what came together takes one
// system call.
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "transport/base/result.h"
#include "transport/brick/limits.h"
#include "transport/brick/wire.h"
#include "transport/tcp/polling_receiver.h"
#include "transport/tcp/stream.h"

namespace brickfs {

class TcpIncoming {
 public:
  explicit TcpIncoming(tcp::Stream& stream) : stream_(stream) {}

  // So many bytes have been received and not taken.
  bool holds(size_t bytes) const { return end_ - begin_ >= bytes; }
  // For the first byte as long as it takes; the rest must follow. EPROTO: malformed.
  Result<wire::TransferHeader> next();
  // The payload behind it, or a part of that.
  Status take(std::span<std::byte> bytes);
  Status discard(size_t bytes);

 private:
  Status fill(size_t least, size_t most);

  tcp::Stream& stream_;
  tcp::PollingReceiver receiver_;
  bool small_ = true;  // the last request: so may the next be
  size_t begin_ = 0;   // of what has been received and not taken
  size_t end_ = 0;
  std::array<std::byte, 16 * kKiB> ahead_;
};

}  // namespace brickfs
