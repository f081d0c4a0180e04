// SPDX-License-Identifier: Apache-2.0
// A program that changes its memory while that is being written, over and over, and does not mind what is written.
//   changing_buffers direct FILE SECONDS     by O_DIRECT
//   changing_buffers mapped FILE SECONDS     by a shared mapping
//   changing_buffers library SOURCE SECONDS  by libbrickfs, to a file of its own
// Says at the end how many MiB that were.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "fs/library/brickfs.h"

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kFileBytes = 16 * kMiB;
constexpr size_t kPage = 4096;
constexpr uint64_t kSyncEvery = 64;  // writes

[[noreturn]] void fail(const char* what, int error) {
  fprintf(stderr, "%s: %s %s\n", what, strerror(error), brickfs_error());
  exit(1);
}

void* map(int file, int flags) {
  void* const memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) fail("mmap", errno);
  return memory;
}

// Another thread that changes some word of each page of it, and goes on.
class Scribbler {
 public:
  explicit Scribbler(void* memory) : words_(static_cast<std::atomic<uint32_t>*>(memory)), thread_([this] { run(); }) {}
  ~Scribbler() {
    stopping_ = true;
    thread_.join();
  }

 private:
  void run() {
    constexpr size_t kWords = kPage / sizeof(uint32_t);
    std::mt19937 randomness(1);
    for (uint32_t page = 0; !stopping_; ++page) {
      const uint32_t word = randomness();
      words_[page % (kFileBytes / kPage) * kWords + word % kWords] = word;
    }
  }

  std::atomic<uint32_t>* const words_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// `write(offset, length)` of pages anywhere, until it is time; now and then `sync()`. Returns the MiB.
template <typename Write, typename Sync>
uint64_t go_on(double seconds, Write&& write, Sync&& sync) {
  std::mt19937 randomness(2);
  uint64_t bytes = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (uint64_t round = 1; std::chrono::steady_clock::now() < end; ++round) {
    const size_t length = kPage << randomness() % 9;
    const size_t offset = randomness() % ((kFileBytes - length) / kPage + 1) * kPage;
    write(offset, length);
    bytes += length;
    if (round % kSyncEvery == 0) sync();
  }
  sync();
  return bytes / kMiB;
}

int open_file(const char* path, int flags) {
  const int file = open(path, O_RDWR | O_CREAT | flags, 0644);
  if (file < 0) fail(path, errno);
  if (ftruncate(file, kFileBytes) != 0) fail(path, errno);
  return file;
}

uint64_t direct(const char* path, double seconds) {
  const int file = open_file(path, O_DIRECT);
  auto* const memory = static_cast<char*>(map(-1, MAP_PRIVATE | MAP_ANONYMOUS));
  const Scribbler scribbler(memory);
  return go_on(
      seconds,
      [&](size_t offset, size_t length) {
        const ssize_t written = pwrite(file, memory + offset, length, static_cast<off_t>(offset));
        if (written != static_cast<ssize_t>(length)) fail("pwrite", written < 0 ? errno : EIO);
      },
      [&] {
        if (fsync(file) != 0) fail("fsync", errno);
      });
}

uint64_t mapped(const char* path, double seconds) {
  auto* const memory = static_cast<char*>(map(open_file(path, 0), MAP_SHARED));
  const Scribbler scribbler(memory);
  const auto sync = [&](size_t offset, size_t length, int flags) {
    if (msync(memory + offset, length, flags) != 0) fail("msync", errno);
  };
  return go_on(
      seconds, [&](size_t offset, size_t length) { sync(offset, length, MS_SYNC); },
      [&] { sync(0, kFileBytes, MS_SYNC); });
}

uint64_t library(const char* source, double seconds) {
  const auto must = [](int64_t code, const char* what) {
    if (code < 0) fail(what, static_cast<int>(-code));
    return code;
  };
  auto* const memory = static_cast<char*>(map(-1, MAP_PRIVATE | MAP_ANONYMOUS));
  brickfs_fs* fs = nullptr;
  brickfs_file* file = nullptr;
  must(brickfs_fs_open(source, "durable", &fs), source);
  must(brickfs_open(fs, "file", O_RDWR | O_CREAT, 0644, &file), "open");
  uint64_t mib = 0;
  {
    const Scribbler scribbler(memory);
    mib = go_on(
        seconds,
        [&](size_t offset, size_t length) { must(brickfs_pwrite(file, memory + offset, length, offset), "pwrite"); },
        [&] { must(brickfs_fsync(file), "fsync"); });
  }
  must(brickfs_close(file), "close");
  must(brickfs_fs_close(fs), "the end");
  return mib;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string work = argc == 4 ? argv[1] : "";
  const double seconds = argc == 4 ? atof(argv[3]) : 0;
  uint64_t mib = 0;
  if (work == "direct") {
    mib = direct(argv[2], seconds);
  } else if (work == "mapped") {
    mib = mapped(argv[2], seconds);
  } else if (work == "library") {
    mib = library(argv[2], seconds);
  } else {
    fprintf(stderr, "usage: %s direct|mapped FILE SECONDS | library SOURCE SECONDS\n", argv[0]);
    return 2;
  }
  printf("%llu\n", static_cast<unsigned long long>(mib));
  return 0;
}
