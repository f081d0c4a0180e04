// SPDX-License-Identifier: Apache-2.0
#include "tests/support/listening_test_brick.h"

#include <cstdio>
#include <utility>

#include "transport/base/check.h"

namespace brickfs::testing {
namespace {

// A brick, and the place of its file, which goes after it.
template <typename PlaceOfFile>
class PlacedTestBrick final : public TestBrick {
 public:
  template <typename Use>
  PlacedTestBrick(const MakeListening& make, BrickConfig config, Use use) {
    use(place_, config);
    brick_ = make(std::move(config));
  }
  std::unique_ptr<Brick> connect() override { return brick_->connect(); }
  void restart() override { brick_->restart(); }

 private:
  PlaceOfFile place_;
  std::unique_ptr<TestBrick> brick_;
};

BrickConfig config_of(uint64_t memory_blocks, std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return config;
}

}  // namespace

ListeningTestBrick::ListeningTestBrick(BrickConfig config, TestEnds ends, std::vector<ListenUrl> urls, Secret secret)
    : config_(std::move(config)), ends_(std::move(ends)), secret_(std::move(secret)), urls_(std::move(urls)) {
  start();
}

ListeningTestBrick::~ListeningTestBrick() { stop(); }

std::unique_ptr<Brick> ListeningTestBrick::connect(const Secret& secret) {
  std::vector<HostPort> addresses;
  for (const ListenUrl& url : urls_) addresses.push_back({url.host, url.port});
  return ends_.connect(std::move(addresses), secret);
}

void ListeningTestBrick::restart() {
  stop();
  start();
}

void ListeningTestBrick::start() {
  std::string why;
  auto service = BrickService::open(config_, &why);
  if (!service.ok()) std::fprintf(stderr, "%s\n", why.c_str());
  CHECK(service.ok());
  service_ = *std::move(service);
  auto listener = ends_.listen(*service_, urls_, secret_, &why);
  if (!listener.ok()) std::fprintf(stderr, "%s\n", why.c_str());
  CHECK(listener.ok());
  listener_ = *std::move(listener);
}

void ListeningTestBrick::stop() {
  listener_.reset();
  const Status stopped = service_->stop();
  CHECK(stopped.ok());
  service_.reset();
}

std::unique_ptr<TestBrick> make_listening_memory(const MakeListening& make, uint64_t memory_blocks,
                                                 std::vector<VolumeSpec> volumes) {
  return make(config_of(memory_blocks, std::move(volumes)));
}

std::unique_ptr<TestBrick> make_listening_kept(const MakeListening& make, uint64_t memory_blocks,
                                               std::vector<VolumeSpec> volumes) {
  return std::make_unique<PlacedTestBrick<TemporaryMemoryFile>>(
      make, config_of(memory_blocks, std::move(volumes)),
      [](const TemporaryMemoryFile& file, BrickConfig& config) { config.keep_path = file.path(); });
}

std::unique_ptr<TestBrick> make_listening_file(const MakeListening& make, uint64_t memory_blocks,
                                               uint64_t capacity_blocks, std::vector<VolumeSpec> volumes) {
  BrickConfig config = config_of(memory_blocks, std::move(volumes));
  config.store_bytes = capacity_blocks * kBlockBytes;
  return std::make_unique<PlacedTestBrick<TemporaryDirectory>>(
      make, std::move(config),
      [](const TemporaryDirectory& directory, BrickConfig& with) { with.store_path = directory.path("store"); });
}

}  // namespace brickfs::testing
