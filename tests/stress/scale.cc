// SPDX-License-Identifier: Apache-2.0
// scale: how time and memory grow with the number of files, without a kernel in between: the file system on a brick in
// this process. Makes files in steps, and after each says what one costs to make, to look up and in memory; what a
// checkpoint takes, and the worst that an operation waits while one is written; and how long a mount takes after a
// crash (with the journal of what came after that checkpoint). docs/measured/scale.md.
#include <fmt/core.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "fs/operations/filesystem.h"
#include "server/service/brick_service.h"
#include "server/service/embedded_brick.h"
#include "transport/base/check.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Options {
  uint64_t files = 1'000'000;
  unsigned steps = 5;
  uint64_t per_directory = 1'000;
  uint64_t bytes = 1;  // of each file
};

// The heap, in which inodes are; a brick's memory is not there.
uint64_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class Scale {
 public:
  explicit Scale(const Options& options);
  void run();

 private:
  void mount();
  void grow(uint64_t files);
  void make_one(Ino directory, const std::string& name);
  double look_up(uint64_t times);
  double checkpoint(double* worst);

  const Options options_;
  std::shared_ptr<BrickService> service_;
  std::unique_ptr<Filesystem> filesystem_;
  std::mt19937_64 random_{1};
  uint64_t heap_before_ = 0;
  uint64_t made_ = 0;
  Ino directory_{};  // the one that is being filled
};

Scale::Scale(const Options& options) : options_(options) {
  const uint64_t units = options.files * divide_up(options.bytes, kUnitBytes);
  BrickConfig config;
  // With room to spare: on a volume that is nearly full the journal is kept short, and operations wait for checkpoints.
  config.memory_bytes = round_up(units * kUnitBytes + options.files * 2 * kKiB + 4 * kGiB, kBlockBytes);
  std::string why;
  auto service = BrickService::open(config, &why);
  CHECK(service.ok());
  service_ = std::move(*service);
  mount();
}

// The former one ends as in a crash.
void Scale::mount() {
  filesystem_.reset();
  heap_before_ = heap_bytes();
  VolumeOptions options;
  options.open.client = ClientId{1};
  options.open.client_name = "scale";
  options.embedded = true;
  auto volume = VolumeSet::open(make_embedded_brick(service_), std::move(options), nullptr);
  CHECK(volume.ok());
  std::string why;
  auto mounted = Filesystem::mount(std::move(*volume), {}, &why);
  CHECK(mounted.ok());
  filesystem_ = std::move(*mounted);
}

void Scale::make_one(Ino directory, const std::string& name) {
  static std::byte content[64 * kKiB];
  const auto made = filesystem_->create(directory, name, 0644, {});
  CHECK(made.ok());
  const LocalSlice slice{content, static_cast<uint32_t>(options_.bytes), 0};
  if (options_.bytes > 0) CHECK(filesystem_->write(made->ino, 0, std::span(&slice, 1), false, nullptr).ok());
  filesystem_->forget(made->ino, 1);
}

void Scale::grow(uint64_t files) {
  for (; made_ < files; ++made_) {
    if (made_ % options_.per_directory == 0) {
      const auto made =
          filesystem_->make_directory(kRootIno, fmt::format("directory{}", made_ / options_.per_directory), 0755, {});
      CHECK(made.ok());
      directory_ = made->ino;
    }
    make_one(directory_, fmt::format("file{}", made_ % options_.per_directory));
  }
}

// Seconds for one, of all names that there are.
double Scale::look_up(uint64_t times) {
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < times; ++i) {
    const uint64_t which = random_() % made_;
    const auto directory = filesystem_->lookup(kRootIno, fmt::format("directory{}", which / options_.per_directory));
    CHECK(directory.ok());
    const auto file = filesystem_->lookup(directory->ino, fmt::format("file{}", which % options_.per_directory));
    CHECK(file.ok());
    filesystem_->forget(directory->ino, 1);
    filesystem_->forget(file->ino, 1);
  }
  return seconds_since(begin) / static_cast<double>(times);
}

// Seconds it takes; `worst`: of an operation meanwhile.
double Scale::checkpoint(double* worst) {
  std::atomic<bool> over{false};
  double took = 0;
  std::thread writer([&] {
    const auto begin = Clock::now();
    CHECK(filesystem_->checkpoint().ok());
    took = seconds_since(begin);
    over = true;
  });
  *worst = 0;
  while (!over) {
    const auto begin = Clock::now();
    make_one(kRootIno, "temporary");
    look_up(1);
    CHECK(filesystem_->unlink(kRootIno, "temporary").ok());
    *worst = std::max(*worst, seconds_since(begin));
  }
  writer.join();
  return took;
}

void Scale::run() {
  fmt::print(
      "| files | make one, us | look one up, us | bytes of memory for one | checkpoint, s | worst wait meanwhile, ms | "
      "mount after a crash, s |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (unsigned step = 1; step <= options_.steps; ++step) {
    const uint64_t before = made_;
    const auto begin = Clock::now();
    grow(options_.files * step / options_.steps);
    const double make = seconds_since(begin) / static_cast<double>(made_ - before);
    const double look = look_up(200'000);
    double worst = 0;
    const double written = checkpoint(&worst);
    CHECK(filesystem_->sync_all().ok());
    filesystem_.reset();
    const auto crashed = Clock::now();
    mount();
    const double mounted = seconds_since(crashed);
    const double memory = static_cast<double>(heap_bytes() - heap_before_) / static_cast<double>(made_);
    fmt::print("| {} | {:.1f} | {:.2f} | {:.0f} | {:.2f} | {:.1f} | {:.2f} |\n", made_, make * 1e6, look * 1e6, memory,
               written, worst * 1e3, mounted);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) {
  brickfs::Options options;
  CLI::App app("how time and memory grow with the number of files");
  app.add_option("--files", options.files, "in all")->capture_default_str();
  app.add_option("--steps", options.steps, "rows of the table")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--per-directory", options.per_directory)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--bytes", options.bytes, "written to each")->check(CLI::Range(0, 65536))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  brickfs::log::set_level(brickfs::log::Level::kWarning);
  brickfs::Scale(options).run();
  return EXIT_SUCCESS;
}
