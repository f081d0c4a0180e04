// SPDX-License-Identifier: Apache-2.0
// A brick of this process behind a TCP listener of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "server/tcp/listener.h"
#include "tests/support/brick_factory.h"
#include "tests/support/reserved_port.h"
#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/proof.h"

namespace brickfs::testing {

class TcpTestBrick final : public TestBrick {
 public:
  // By `tls` its clients encrypt, too, unless they say otherwise.
  explicit TcpTestBrick(BrickConfig config, Secret secret = {}, TlsMode tls = TlsMode::kOff);
  ~TcpTestBrick() override;
  std::unique_ptr<Brick> connect() override { return connect(ClientSecret(secret_).with(tls_)); }
  std::unique_ptr<Brick> connect(const ClientSecret& secret);
  void restart() override;  // on the same port

  uint16_t port() const { return port_.number(); }
  BrickService& service() { return *service_; }
  const TcpListener& listener() const { return *listener_; }

 private:
  void start();
  void stop();

  const BrickConfig config_;
  const Secret secret_;
  const TlsMode tls_;
  const ReservedPort port_;
  std::unique_ptr<BrickService> service_;
  std::unique_ptr<TcpListener> listener_;
};

BrickConfig memory_config(uint64_t memory_blocks);
OpenRequest request_for(uint64_t client, OpenMode mode = OpenMode::kExclusive, bool steal = false);
// Blocks [first, first + count) by number, allocated and mapped for writing; a handle for each.
std::vector<Handle> alloc_and_map(Brick& brick, uint64_t first, uint64_t count);

std::unique_ptr<TestBrick> make_tcp_memory(uint64_t memory_blocks, uint64_t capacity_blocks,
                                           std::vector<VolumeSpec> volumes);
// Wanted by a path where nobody is: by TCP all the same.
std::unique_ptr<TestBrick> make_redirected_memory(uint64_t memory_blocks, uint64_t capacity_blocks,
                                                  std::vector<VolumeSpec> volumes);
// All of it encrypted.
std::unique_ptr<TestBrick> make_tls_memory(uint64_t memory_blocks, uint64_t capacity_blocks,
                                           std::vector<VolumeSpec> volumes);
std::unique_ptr<TestBrick> make_tcp_file(uint64_t memory_blocks, uint64_t capacity_blocks,
                                         std::vector<VolumeSpec> volumes);

}  // namespace brickfs::testing
