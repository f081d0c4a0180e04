// SPDX-License-Identifier: Apache-2.0
// Somebody on the way between a tcp client and a brick: he sees all that passes, and changes what he likes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <thread>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace brickfs::testing {

class TcpRelay {
 public:
  enum class Way { kToBrick, kToClient };
  // Told what comes on any connection, in its order: `offset`: how much of its way had come before. On several threads.
  using Change = std::function<void(Way way, uint64_t offset, std::span<std::byte> bytes)>;

  explicit TcpRelay(uint16_t brick, Change change = nullptr);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  uint16_t port() const;
  // All that passed, one connection's way behind the other.
  bool has_seen(std::span<const std::byte> bytes) const;
  uint64_t seen_bytes() const;
  size_t connections() const;

 private:
  struct Connection {
    UniqueFd client;
    UniqueFd brick;
    std::vector<std::byte> seen[2];
    std::thread threads[2];
  };

  void accept_all();
  void carry(Connection& connection, Way way);

  const uint16_t brick_;
  const Change change_;
  const UniqueFd listening_;
  mutable Mutex mutex_;
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace brickfs::testing
