// SPDX-License-Identifier: Apache-2.0
// A brick of this process behind a listener of its own, whatever it listens by.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/peers/listener.h"
#include "server/service/brick_service.h"
#include "tests/support/brick_factory.h"
#include "transport/brick/brick.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"

namespace brickfs::testing {

// How a transport listens, and is connected to.
struct TestEnds {
  // At all URLs, which get the ports that were chosen.
  std::function<Result<std::unique_ptr<Listener>>(BrickService&, std::vector<ListenUrl>& urls, const Secret&,
                                                  std::string* why)>
      listen;
  std::function<std::unique_ptr<Brick>(std::vector<HostPort> addresses, const Secret&)> connect;
};

template <typename OfTransport>
Result<std::unique_ptr<Listener>> listen_at_all(BrickService& service, std::vector<ListenUrl>& urls,
                                                const Secret& secret, std::string* why) {
  auto listener = TRY(OfTransport::open(service, urls, secret, why));
  for (size_t i = 0; i < urls.size(); ++i) urls[i].port = listener->port(i);
  return std::unique_ptr<Listener>(std::move(listener));
}

class ListeningTestBrick : public TestBrick {
 public:
  ListeningTestBrick(BrickConfig config, TestEnds ends, std::vector<ListenUrl> urls, Secret secret = {});
  ~ListeningTestBrick() override;
  std::unique_ptr<Brick> connect() override { return connect(secret_); }
  std::unique_ptr<Brick> connect(const Secret& secret);
  void restart() override;  // on the same ports

  uint16_t port() const { return urls_.front().port; }
  BrickService& service() { return *service_; }

 private:
  void start();
  void stop();

  const BrickConfig config_;
  const TestEnds ends_;
  const Secret secret_;
  std::vector<ListenUrl> urls_;
  std::unique_ptr<BrickService> service_;
  std::unique_ptr<Listener> listener_;
};

// As BrickKind::make, with what stands in for a disk, or outlives the brick, in a place of its own.
using MakeListening = std::function<std::unique_ptr<TestBrick>(BrickConfig)>;
std::unique_ptr<TestBrick> make_listening_memory(const MakeListening& make, uint64_t memory_blocks,
                                                 std::vector<VolumeSpec> volumes);
std::unique_ptr<TestBrick> make_listening_kept(const MakeListening& make, uint64_t memory_blocks,
                                               std::vector<VolumeSpec> volumes);
std::unique_ptr<TestBrick> make_listening_file(const MakeListening& make, uint64_t memory_blocks,
                                               uint64_t capacity_blocks, std::vector<VolumeSpec> volumes);

}  // namespace brickfs::testing
