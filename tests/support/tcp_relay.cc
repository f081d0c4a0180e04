// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tcp_relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "transport/tcp/socket.h"

namespace brickfs::testing {

TcpRelay::TcpRelay(uint16_t brick, Change change)
    : brick_(brick), change_(std::move(change)), listening_(*tcp::listen_on("127.0.0.1", 0)) {
  thread_ = std::thread([this] { accept_all(); });
}

TcpRelay::~TcpRelay() {
  tcp::shut_down(listening_.get());
  thread_.join();
  std::list<Connection> all;
  {
    MutexLock lock(mutex_);
    all.swap(connections_);
  }
  for (const Connection& connection : all) {
    tcp::shut_down(connection.client.get());
    tcp::shut_down(connection.brick.get());
  }
  for (Connection& connection : all)
    for (std::thread& thread : connection.threads) thread.join();
}

uint16_t TcpRelay::port() const { return *tcp::local_port(listening_.get()); }

void TcpRelay::accept_all() {
  while (true) {
    UniqueFd client(::accept(listening_.get(), nullptr, nullptr));
    if (!client) return;
    auto brick = tcp::connect_to("127.0.0.1", brick_, tcp::Clock::now() + std::chrono::seconds(10));
    if (!brick.ok()) continue;
    MutexLock lock(mutex_);
    Connection& connection = connections_.emplace_back();
    connection.client = std::move(client);
    connection.brick = *std::move(brick);
    for (const Way way : {Way::kToBrick, Way::kToClient})
      connection.threads[static_cast<int>(way)] = std::thread([this, &connection, way] { carry(connection, way); });
  }
}

void TcpRelay::carry(Connection& connection, Way way) {
  const int from = way == Way::kToBrick ? connection.client.get() : connection.brick.get();
  const int to = way == Way::kToBrick ? connection.brick.get() : connection.client.get();
  std::vector<std::byte> piece(1 << 16);
  uint64_t offset = 0;
  while (true) {
    const ssize_t got = ::recv(from, piece.data(), piece.size(), 0);
    if (got <= 0) break;
    const auto bytes = std::span(piece).first(static_cast<size_t>(got));
    if (change_) change_(way, offset, bytes);
    offset += bytes.size();
    {
      MutexLock lock(mutex_);
      auto& seen = connection.seen[static_cast<int>(way)];
      seen.insert(seen.end(), bytes.begin(), bytes.end());
    }
    iovec part = tcp::to_iovec(bytes);
    if (!tcp::send_all(to, std::span(&part, 1)).ok()) break;
  }
  tcp::shut_down(from);
  tcp::shut_down(to);
}

bool TcpRelay::has_seen(std::span<const std::byte> bytes) const {
  MutexLock lock(mutex_);
  return std::ranges::any_of(connections_, [&](const Connection& connection) {
    return std::ranges::any_of(connection.seen, [&](const std::vector<std::byte>& seen) {
      return std::search(seen.begin(), seen.end(), bytes.begin(), bytes.end()) != seen.end();
    });
  });
}

uint64_t TcpRelay::seen_bytes() const {
  MutexLock lock(mutex_);
  uint64_t total = 0;
  for (const Connection& connection : connections_)
    for (const auto& seen : connection.seen) total += seen.size();
  return total;
}

size_t TcpRelay::connections() const {
  MutexLock lock(mutex_);
  return connections_.size();
}

}  // namespace brickfs::testing
