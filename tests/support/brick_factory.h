// SPDX-License-Identifier: Apache-2.0
// Makes bricks of every kind for tests that run against each of them: a service, and any number of clients' ends of it.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "transport/brick/brick.h"

namespace brickfs::testing {

// A directory under /tmp that goes with this.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A name for a file on tmpfs, which goes with this.
class TemporaryMemoryFile {
 public:
  TemporaryMemoryFile();
  TemporaryMemoryFile(const TemporaryMemoryFile&) = delete;
  TemporaryMemoryFile& operator=(const TemporaryMemoryFile&) = delete;
  ~TemporaryMemoryFile();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A service whose store is a file at `path`. Null, and the test has failed: it does not open.
std::shared_ptr<BrickService> open_service_on(const std::string& path, uint64_t memory_blocks, uint64_t store_blocks);

// A brick under test. Its clients' ends must be gone before it restarts or goes.
class TestBrick {
 public:
  virtual ~TestBrick() = default;
  virtual std::unique_ptr<Brick> connect() = 0;
  // Stops it cleanly and starts it again: what a durable one committed is still there.
  virtual void restart() = 0;
};

struct BrickKind {
  const char* name;
  Durability durability;
  // `memory_blocks` in memory at once; `capacity_blocks` is used by durable ones.
  std::function<std::unique_ptr<TestBrick>(uint64_t memory_blocks, uint64_t capacity_blocks, std::vector<VolumeSpec>)>
      make;
  bool keeps = false;  // a volatile one whose memory is there again after restart()

  friend void PrintTo(const BrickKind& kind, std::ostream* out) { *out << kind.name; }
};

// Each implementation of transport/brick/brick.h: add new ones in brick_factory.cc.
std::vector<BrickKind> brick_kinds();

std::unique_ptr<TestBrick> make_embedded_memory(uint64_t memory_blocks, uint64_t capacity_blocks,
                                                std::vector<VolumeSpec> volumes);
std::unique_ptr<TestBrick> make_embedded_kept(uint64_t memory_blocks, uint64_t capacity_blocks,
                                              std::vector<VolumeSpec> volumes);
std::unique_ptr<TestBrick> make_embedded_file(uint64_t memory_blocks, uint64_t capacity_blocks,
                                              std::vector<VolumeSpec> volumes);

}  // namespace brickfs::testing
