// SPDX-License-Identifier: Apache-2.0
#include "tests/support/verbs_test_brick.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "transport/base/check.h"
#include "transport/verbs/verbs_brick.h"

namespace brickfs::testing {
namespace {

std::vector<std::string> split(const char* text) {
  std::vector<std::string> parts;
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    parts.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
  }
  return parts;
}

// With a directory of its own for the store.
class VerbsFileTestBrick final : public TestBrick {
 public:
  explicit VerbsFileTestBrick(BrickConfig config) {
    config.store_path = directory_.path("store");
    brick_ = std::make_unique<VerbsTestBrick>(std::move(config), std::vector{*verbs_address()});
  }
  std::unique_ptr<Brick> connect() override { return brick_->connect(); }
  void restart() override { brick_->restart(); }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<VerbsTestBrick> brick_;
};

class VerbsKeptTestBrick final : public TestBrick {
 public:
  explicit VerbsKeptTestBrick(BrickConfig config) {
    config.keep_path = file_.path();
    brick_ = std::make_unique<VerbsTestBrick>(std::move(config), std::vector{*verbs_address()});
  }
  std::unique_ptr<Brick> connect() override { return brick_->connect(); }
  void restart() override { brick_->restart(); }

 private:
  TemporaryMemoryFile file_;
  std::unique_ptr<VerbsTestBrick> brick_;
};

}  // namespace

std::optional<std::string> verbs_address() {
  const char* const address = std::getenv("BRICKFS_RDMA_ADDRESS");
  if (address == nullptr || *address == 0) return std::nullopt;
  return address;
}

std::vector<std::string> verbs_addresses() { return split(std::getenv("BRICKFS_RDMA_ADDRESSES")); }

VerbsTestBrick::VerbsTestBrick(BrickConfig config, std::vector<std::string> addresses, Secret secret)
    : config_(std::move(config)), secret_(std::move(secret)) {
  for (const std::string& address : addresses) urls_.push_back({SourceKind::kRdma, address, 0});
  start();
}

VerbsTestBrick::~VerbsTestBrick() { stop(); }

std::unique_ptr<Brick> VerbsTestBrick::connect(const Secret& secret) {
  std::vector<HostPort> addresses;
  for (const ListenUrl& url : urls_) addresses.push_back({url.host, url.port});
  return make_verbs_brick(std::move(addresses), secret);
}

void VerbsTestBrick::restart() {
  stop();
  start();
}

void VerbsTestBrick::start() {
  std::string why;
  auto service = BrickService::open(config_, &why);
  if (!service.ok()) std::fprintf(stderr, "%s\n", why.c_str());
  CHECK(service.ok());
  service_ = *std::move(service);
  auto listener = VerbsListener::open(*service_, urls_, secret_, &why);
  if (!listener.ok()) std::fprintf(stderr, "%s\n", why.c_str());
  CHECK(listener.ok());
  listener_ = *std::move(listener);
  for (size_t i = 0; i < urls_.size(); ++i) urls_[i].port = listener_->port(i);
}

void VerbsTestBrick::stop() {
  listener_.reset();
  const Status stopped = service_->stop();
  CHECK(stopped.ok());
  service_.reset();
}

std::unique_ptr<TestBrick> make_verbs_memory(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return std::make_unique<VerbsTestBrick>(std::move(config), std::vector{*verbs_address()});
}

std::unique_ptr<TestBrick> make_verbs_kept(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return std::make_unique<VerbsKeptTestBrick>(std::move(config));
}

std::unique_ptr<TestBrick> make_verbs_file(uint64_t memory_blocks, uint64_t capacity_blocks,
                                           std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.store_bytes = capacity_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return std::make_unique<VerbsFileTestBrick>(std::move(config));
}

}  // namespace brickfs::testing
