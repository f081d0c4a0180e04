// SPDX-License-Identifier: Apache-2.0
// scale_mounted: how time and the client's memory grow with what a mount is used for, through the kernel: the size of
// one file, the extents of a sparse one, open files, threads. A table each, of as many rows as --steps.
// docs/measured/scale.md; scale_mounted.sh runs it.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr size_t kUnit = 4 * kKiB;
constexpr unsigned kSamples = 2'000;

struct Options {
  std::string directory;
  int client = 0;  // pid of the brickfs that serves it
  unsigned steps = 5;
  uint64_t file_gib = 16;
  uint64_t extents = 500'000;
  uint64_t sparse_gib = 1'024;
  unsigned open_files = 10'000;
  unsigned threads = 1'000;
  double seconds = 3;  // of each number of threads
};

// What O_DIRECT reads into and writes from.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kUnit, bytes)), &std::free), bytes_(bytes) {
    CHECK(memory_ != nullptr);
    std::fill_n(memory_.get(), bytes, std::byte{0x5a});
  }
  void write(int file, uint64_t offset) {
    CHECK(pwrite(file, memory_.get(), bytes_, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes_));
  }
  void read(int file, uint64_t offset) {
    CHECK(pread(file, memory_.get(), bytes_, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes_));
  }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
  size_t bytes_;
};

class File {
 public:
  explicit File(const std::string& path, int more = O_DIRECT)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | more, 0644)) {
    CHECK(file_ >= 0);
  }
  File(File&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (file_ >= 0) close(file_);
  }
  int get() const { return file_; }

 private:
  int file_;
};

class Scale {
 public:
  explicit Scale(const Options& options) : options_(options) {}
  void of_a_file();
  void of_a_sparse_file();
  void of_open_files();
  void of_threads();

 private:
  std::string path(const std::string& name) const { return options_.directory + "/" + name; }
  uint64_t client_status(const std::string& field) const;
  uint64_t client_bytes() const { return client_status("VmRSS:") * kKiB; }
  double growth_per(uint64_t before, uint64_t objects) const;
  // Microseconds of one, the median of kSamples.
  double median_of(const std::function<void()>& work) const;

  const Options options_;
  std::mt19937_64 random_{1};
};

uint64_t Scale::client_status(const std::string& field) const {
  std::ifstream status(fmt::format("/proc/{}/status", options_.client));
  for (std::string word; status >> word;) {
    uint64_t value = 0;
    if (word == field && status >> value) return value;
  }
  std::abort();
}

double Scale::growth_per(uint64_t before, uint64_t objects) const {
  return (static_cast<double>(client_bytes()) - static_cast<double>(before)) / static_cast<double>(objects);
}

double Scale::median_of(const std::function<void()>& work) const {
  std::vector<double> took(kSamples);
  for (double& one : took) {
    const auto begin = Clock::now();
    work();
    one = seconds_since(begin) * 1e6;
  }
  std::ranges::nth_element(took, took.begin() + kSamples / 2);
  return took[kSamples / 2];
}

void Scale::of_a_file() {
  fmt::print(
      "\n| GiB of one file | 1 MiB write, MB/s | 4 KiB read, us | 4 KiB write, us | the client's memory, MB "
      "|\n|---|---|---|---|---|\n");
  const File file(path("large"));
  Buffer large(kMiB);
  Buffer small(kUnit);
  uint64_t size = 0;
  for (unsigned step = 1; step <= options_.steps; ++step) {
    const uint64_t before = size;
    const auto begin = Clock::now();
    for (; size < options_.file_gib * kGiB * step / options_.steps; size += kMiB) large.write(file.get(), size);
    const double rate = static_cast<double>(size - before) / seconds_since(begin) / 1e6;
    const auto anywhere = [&] { return random_() % (size / kUnit) * kUnit; };
    const double read = median_of([&] { small.read(file.get(), anywhere()); });
    const double write = median_of([&] { small.write(file.get(), anywhere()); });
    fmt::print("| {:.1f} | {:.0f} | {:.1f} | {:.1f} | {:.1f} |\n", static_cast<double>(size) / kGiB, rate, read, write,
               static_cast<double>(client_bytes()) / 1e6);
    std::fflush(stdout);
  }
  CHECK(unlink(path("large").c_str()) == 0);
}

// An extent of a unit each, all over the file: an odd factor visits each unit of a power of two once.
void Scale::of_a_sparse_file() {
  fmt::print(
      "\n| extents of a file of {} GiB | write one, us | read one, us | read a hole, us | SEEK_DATA, us | bytes of "
      "memory for one |\n|---|---|---|---|---|---|\n",
      options_.sparse_gib);
  const File file(path("sparse"));
  const uint64_t units = options_.sparse_gib * kGiB / kUnit;
  const auto place = [&](uint64_t extent) { return extent * 0x9E3779B97F4A7C15 % units * kUnit; };
  CHECK(ftruncate(file.get(), static_cast<off_t>(units * kUnit)) == 0);
  Buffer buffer(kUnit);
  const uint64_t memory = client_bytes();
  uint64_t made = 0;
  for (unsigned step = 1; step <= options_.steps; ++step) {
    const uint64_t before = made;
    const auto begin = Clock::now();
    for (; made < options_.extents * step / options_.steps; ++made) buffer.write(file.get(), place(made));
    const double write = seconds_since(begin) / static_cast<double>(made - before) * 1e6;
    const double read = median_of([&] { buffer.read(file.get(), place(random_() % made)); });
    const double hole = median_of([&] { buffer.read(file.get(), place(made + random_() % (units - made))); });
    const double seek =
        median_of([&] { CHECK(lseek(file.get(), static_cast<off_t>(random_() % units * kUnit / 2), SEEK_DATA) >= 0); });
    fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.0f} |\n", made, write, read, hole, seek,
               growth_per(memory, made));
    std::fflush(stdout);
  }
  CHECK(unlink(path("sparse").c_str()) == 0);
}

void Scale::of_open_files() {
  fmt::print(
      "\n| open files | make and open one, us | read through one, us | write through one, us | bytes of memory for one "
      "|\n|---|---|---|---|---|\n");
  const rlim_t needed = options_.open_files + 100;
  const rlimit limit{needed, needed};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  std::vector<File> files;
  Buffer buffer(kUnit);
  const uint64_t memory = client_bytes();
  for (unsigned step = 1; step <= options_.steps; ++step) {
    const size_t before = files.size();
    const auto begin = Clock::now();
    while (files.size() < size_t{options_.open_files} * step / options_.steps)
      files.emplace_back(path(fmt::format("open{}", files.size())));
    const double open = seconds_since(begin) / static_cast<double>(files.size() - before) * 1e6;
    for (size_t i = before; i < files.size(); ++i) buffer.write(files[i].get(), 0);
    const auto any = [&] { return files[random_() % files.size()].get(); };
    const double read = median_of([&] { buffer.read(any(), 0); });
    const double write = median_of([&] { buffer.write(any(), 0); });
    fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} |\n", files.size(), open, read, write,
               growth_per(memory, files.size()));
    std::fflush(stdout);
  }
  for (size_t i = 0; i < files.size(); ++i) CHECK(unlink(path(fmt::format("open{}", i)).c_str()) == 0);
}

// Each reads and writes by turns; ten times as many in each row.
void Scale::of_threads() {
  fmt::print(
      "\n| threads | 4 KiB reads and writes, 1/s | median, us | of a hundred the slowest, us | the client's threads | "
      "the client's memory, MB |\n|---|---|---|---|---|---|\n");
  constexpr uint64_t kFileBytes = 256 * kMiB;
  const File file(path("shared"));
  Buffer large(kMiB);
  for (uint64_t offset = 0; offset < kFileBytes; offset += kMiB) large.write(file.get(), offset);
  for (const unsigned part : {1000, 100, 10, 1}) {
    const unsigned count = options_.threads / part;
    if (count == 0) continue;
    std::vector<std::vector<double>> took(count);
    std::vector<std::thread> threads;
    const auto begin = Clock::now();
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937_64 random(i);
        Buffer buffer(kUnit);
        for (auto before = Clock::now(); seconds_since(begin) < options_.seconds;) {
          const uint64_t offset = random() % (kFileBytes / kUnit) * kUnit;
          if (took[i].size() % 2 == 0) {
            buffer.read(file.get(), offset);
          } else {
            buffer.write(file.get(), offset);
          }
          const auto after = Clock::now();
          took[i].push_back(std::chrono::duration<double, std::micro>(after - before).count());
          before = after;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const double elapsed = seconds_since(begin);
    std::vector<double> all;
    for (const auto& of_one : took) all.insert(all.end(), of_one.begin(), of_one.end());
    std::ranges::sort(all);
    fmt::print("| {} | {:.0f} | {:.1f} | {:.1f} | {} | {:.1f} |\n", count, static_cast<double>(all.size()) / elapsed,
               all[all.size() / 2], all[all.size() * 99 / 100], client_status("Threads:"),
               static_cast<double>(client_bytes()) / 1e6);
    std::fflush(stdout);
  }
  CHECK(unlink(path("shared").c_str()) == 0);
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) {
  brickfs::Options options;
  CLI::App app("how time and the client's memory grow with what a mount is used for");
  app.add_option("directory", options.directory, "on the mount")->required()->check(CLI::ExistingDirectory);
  app.add_option("--client", options.client, "pid of the brickfs that serves it")->required();
  app.add_option("--steps", options.steps, "rows of a table")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--file-gib", options.file_gib, "of one file; 0: not this")->capture_default_str();
  app.add_option("--extents", options.extents, "of 4 KiB, in a sparse file; 0: not this")->capture_default_str();
  app.add_option("--sparse-gib", options.sparse_gib, "its size, a power of two")->capture_default_str();
  app.add_option("--open-files", options.open_files, "0: not this")->capture_default_str();
  app.add_option("--threads", options.threads, "0: not this")->capture_default_str();
  app.add_option("--seconds", options.seconds, "for each number of threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  brickfs::Scale scale(options);
  if (options.file_gib > 0) scale.of_a_file();
  if (options.extents > 0) scale.of_a_sparse_file();
  if (options.open_files > 0) scale.of_open_files();
  if (options.threads > 0) scale.of_threads();
  return EXIT_SUCCESS;
}
