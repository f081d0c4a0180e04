// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tcp_test_brick.h"

#include <cstdio>
#include <utility>

#include "transport/base/check.h"
#include "transport/paths/connect.h"
#include "transport/tcp/tcp_brick.h"

namespace brickfs::testing {

TcpTestBrick::TcpTestBrick(BrickConfig config, Secret secret, TlsMode tls)
    : config_(std::move(config)), secret_(std::move(secret)), tls_(tls) {
  start();
}

TcpTestBrick::~TcpTestBrick() { stop(); }

std::unique_ptr<Brick> TcpTestBrick::connect(const ClientSecret& secret) {
  return make_tcp_brick("127.0.0.1", port(), secret);
}

void TcpTestBrick::restart() {
  stop();
  start();
}

void TcpTestBrick::start() {
  std::string why;
  auto service = BrickService::open(config_, &why);
  if (!service.ok()) std::fprintf(stderr, "%s\n", why.c_str());
  CHECK(service.ok());
  service_ = *std::move(service);
  auto listener = TcpListener::open(*service_, {SourceKind::kTcp, "127.0.0.1", port()}, secret_, tls_);
  CHECK(listener.ok());
  listener_ = *std::move(listener);
}

void TcpTestBrick::stop() {
  listener_.reset();
  const Status stopped = service_->stop();
  CHECK(stopped.ok());
  service_.reset();
}

namespace {

// With a directory of its own for the store.
class TcpFileTestBrick final : public TestBrick {
 public:
  explicit TcpFileTestBrick(BrickConfig config) {
    config.store_path = directory_.path("store");
    brick_ = std::make_unique<TcpTestBrick>(std::move(config));
  }
  std::unique_ptr<Brick> connect() override { return brick_->connect(); }
  void restart() override { brick_->restart(); }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<TcpTestBrick> brick_;
};

class RedirectedTestBrick final : public TestBrick {
 public:
  explicit RedirectedTestBrick(BrickConfig config) : brick_(std::move(config)) {}
  std::unique_ptr<Brick> connect() override {
    const auto nobody = [] { return make_tcp_brick("127.0.0.1", 9, {}); };
    return make_brick_with_tcp_around("rdma", {{"127.0.0.1", brick_.port()}}, {}, nobody);
  }
  void restart() override { brick_.restart(); }

 private:
  TcpTestBrick brick_;
};

}  // namespace

BrickConfig memory_config(uint64_t memory_blocks) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  return config;
}

OpenRequest request_for(uint64_t client, OpenMode mode, bool steal) {
  OpenRequest request;
  request.client = ClientId{client};
  request.client_name = "client " + std::to_string(client);
  request.mode = mode;
  request.steal = steal;
  return request;
}

std::vector<Handle> alloc_and_map(Brick& brick, uint64_t first, uint64_t count) {
  std::vector<Handle> handles;
  for (uint64_t block = first; block < first + count; ++block) {
    const BlockRange range{BlockAddress{block * kBlockBytes}, 1};
    const Status allocated = brick.alloc(range);
    CHECK(allocated.ok());
    const auto mapped = brick.map(range, Access::kReadWrite);
    CHECK(mapped.ok());
    handles.push_back(mapped->front());
  }
  return handles;
}

std::unique_ptr<TestBrick> make_tcp_memory(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  BrickConfig config = memory_config(memory_blocks);
  config.volumes = std::move(volumes);
  return std::make_unique<TcpTestBrick>(std::move(config));
}

std::unique_ptr<TestBrick> make_tls_memory(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  BrickConfig config = memory_config(memory_blocks);
  config.volumes = std::move(volumes);
  return std::make_unique<TcpTestBrick>(std::move(config), Secret{"what both ends know"}, TlsMode::kRequire);
}

std::unique_ptr<TestBrick> make_redirected_memory(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  BrickConfig config = memory_config(memory_blocks);
  config.volumes = std::move(volumes);
  return std::make_unique<RedirectedTestBrick>(std::move(config));
}

std::unique_ptr<TestBrick> make_tcp_file(uint64_t memory_blocks, uint64_t capacity_blocks,
                                         std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.store_bytes = capacity_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return std::make_unique<TcpFileTestBrick>(std::move(config));
}

}  // namespace brickfs::testing
