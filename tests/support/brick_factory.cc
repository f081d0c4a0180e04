// SPDX-License-Identifier: Apache-2.0
#include "tests/support/brick_factory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "server/service/embedded_brick.h"
#ifdef BRICKFS_FABRIC
#include "tests/support/fabric_test_brick.h"
#endif
#include "tests/support/tcp_test_brick.h"
#include "tests/support/verbs_test_brick.h"
#include "transport/base/check.h"

namespace brickfs::testing {

TemporaryDirectory::TemporaryDirectory() : path_("/tmp/brickfs_test_XXXXXX") {
  CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

TemporaryMemoryFile::TemporaryMemoryFile() : path_("/dev/shm/brickfs_test_XXXXXX") {
  const int fd = mkstemp(path_.data());
  CHECK(fd >= 0);
  close(fd);
  unlink(path_.c_str());
}

TemporaryMemoryFile::~TemporaryMemoryFile() { unlink(path_.c_str()); }

std::shared_ptr<BrickService> open_service_on(const std::string& path, uint64_t memory_blocks, uint64_t store_blocks) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.store_path = path;
  config.store_bytes = store_blocks * kBlockBytes;
  std::string why;
  auto service = BrickService::open(config, &why);
  EXPECT_TRUE(service.ok()) << why;
  return service.ok() ? std::shared_ptr<BrickService>(*std::move(service)) : nullptr;
}

namespace {

class EmbeddedTestBrick final : public TestBrick {
 public:
  explicit EmbeddedTestBrick(BrickConfig config) : config_(std::move(config)) { start(); }
  std::unique_ptr<Brick> connect() override { return make_embedded_brick(service_); }
  void restart() override {
    CHECK(service_.use_count() == 1);
    service_.reset();
    start();
  }

 private:
  void start() {
    std::string why;
    auto service = BrickService::open(config_, &why);
    if (!service.ok()) std::fprintf(stderr, "%s\n", why.c_str());
    CHECK(service.ok());
    service_ = *std::move(service);
  }

  BrickConfig config_;
  std::shared_ptr<BrickService> service_;
};

// With a directory of its own for the store.
class EmbeddedFileTestBrick final : public TestBrick {
 public:
  explicit EmbeddedFileTestBrick(BrickConfig config) {
    config.store_path = directory_.path("store");
    brick_ = std::make_unique<EmbeddedTestBrick>(std::move(config));
  }
  std::unique_ptr<Brick> connect() override { return brick_->connect(); }
  void restart() override { brick_->restart(); }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<EmbeddedTestBrick> brick_;
};

class EmbeddedKeptTestBrick final : public TestBrick {
 public:
  explicit EmbeddedKeptTestBrick(BrickConfig config) {
    config.keep_path = file_.path();
    brick_ = std::make_unique<EmbeddedTestBrick>(std::move(config));
  }
  std::unique_ptr<Brick> connect() override { return brick_->connect(); }
  void restart() override { brick_->restart(); }

 private:
  TemporaryMemoryFile file_;
  std::unique_ptr<EmbeddedTestBrick> brick_;
};

}  // namespace

std::unique_ptr<TestBrick> make_embedded_kept(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return std::make_unique<EmbeddedKeptTestBrick>(std::move(config));
}

std::unique_ptr<TestBrick> make_embedded_memory(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return std::make_unique<EmbeddedTestBrick>(std::move(config));
}

std::unique_ptr<TestBrick> make_embedded_file(uint64_t memory_blocks, uint64_t capacity_blocks,
                                              std::vector<VolumeSpec> volumes) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.store_bytes = capacity_blocks * kBlockBytes;
  config.volumes = std::move(volumes);
  return std::make_unique<EmbeddedFileTestBrick>(std::move(config));
}

std::vector<BrickKind> brick_kinds() {
  std::vector<BrickKind> kinds = {
      {"memory", Durability::kVolatile, make_embedded_memory},
      {"file", Durability::kDurable, make_embedded_file},
      {"tcp_memory", Durability::kVolatile, make_tcp_memory},
      {"tls_memory", Durability::kVolatile, make_tls_memory},
      {"tcp_file", Durability::kDurable, make_tcp_file},
      {"redirected", Durability::kVolatile, make_redirected_memory},
      {"kept", Durability::kVolatile, make_embedded_kept, true},
  };
#ifdef BRICKFS_FABRIC
  for (BrickKind& kind : fabric_kinds()) kinds.push_back(std::move(kind));
#endif
  if (verbs_address()) {
    kinds.push_back({"verbs_memory", Durability::kVolatile, make_verbs_memory});
    kinds.push_back({"verbs_file", Durability::kDurable, make_verbs_file});
    kinds.push_back({"verbs_kept", Durability::kVolatile, make_verbs_kept, true});
  }
  return kinds;
}

}  // namespace brickfs::testing
