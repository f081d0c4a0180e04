// SPDX-License-Identifier: Apache-2.0
// posix_exerciser: one file, changed and read in every way there is, against its image in memory; as fsx does, which
// this owes its idea. Buffered, mapped and direct I/O, truncation, holes, copies, closing and remounting, all at random
// from a seed. Exit 0: all as in the image; 1: not, with the last operations; 2: it could not run.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kMostBytes = 1 << 20;  // of the file
constexpr size_t kPage = 4096;
constexpr size_t kHistory = 60;  // operations shown

struct Settings {
  std::string path;
  std::string also;  // the same file on another machine
  uint64_t seed = 1;
  uint64_t operations = 10000;
  uint64_t remount_every = 0;
  std::string remount;  // a command
  bool direct = true;
};

class Exerciser {
 public:
  explicit Exerciser(const Settings& settings) : settings_(settings), random_(settings.seed) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kPage, kMostBytes) != 0) exit(2);
    aligned_ = static_cast<char*>(memory);
    unlink(settings_.path.c_str());
    reopen();
  }
  ~Exerciser() {
    close_files();
    unlink(settings_.path.c_str());
    free(aligned_);
  }

  void run() {
    for (uint64_t i = 0; i < settings_.operations; ++i) {
      turn_ = i % machines();
      step();
      turn_ = (i + 1) % machines();
      check_size();
      if (settings_.remount_every > 0 && i % settings_.remount_every == settings_.remount_every - 1) remount();
    }
    check_all();
  }

 private:
  struct Range {
    size_t offset;
    size_t bytes;
    size_t end() const { return offset + bytes; }
  };

  struct Files {
    int buffered = -1;
    int direct = -1;  // or -1: without
  };
  size_t machines() const { return settings_.also.empty() ? 1 : 2; }
  int file() const { return files_[turn_].buffered; }
  int direct() const { return files_[turn_].direct; }

  size_t below(size_t bound) { return random_() % bound; }
  Range any_range(bool pages = false) {
    size_t offset = below(3) == 0 ? below(kMostBytes / kPage) * kPage : below(kMostBytes);
    size_t bytes = 1 + below(below(4) == 0 ? 200'000 : below(2) == 0 ? 3 * kPage : 100);
    if (pages) {
      offset = offset / kPage * kPage;
      bytes = (bytes + kPage - 1) / kPage * kPage;
    }
    return {offset, std::min(bytes, kMostBytes - offset)};
  }
  // Within the file, or of no bytes.
  Range range_inside() {
    if (image_.empty()) return {0, 0};
    const Range range = any_range();
    const size_t offset = range.offset % image_.size();
    return {offset, std::min(range.bytes, image_.size() - offset)};
  }

  void note(const char* what, Range range, size_t more = 0) {
    history_.push_back((machines() > 1 ? "machine " + std::to_string(turn_) + ": " : "") + what + " " +
                       std::to_string(range.offset) + " +" + std::to_string(range.bytes) +
                       (more != 0 ? " to " + std::to_string(more) : ""));
    if (history_.size() > kHistory) history_.pop_front();
  }
  [[noreturn]] void fail(const std::string& what) {
    for (const std::string& line : history_) printf("  %s\n", line.c_str());
    printf("posix_exerciser: seed %llu: %s\n", static_cast<unsigned long long>(settings_.seed), what.c_str());
    exit(1);
  }
  void must(bool done, const char* what) {
    if (!done) fail(std::string(what) + ": " + strerror(errno));
  }
  void compare(const char* got, Range range, const char* how) {
    for (size_t i = 0; i < range.bytes; ++i) {
      if (got[i] == image_[range.offset + i]) continue;
      fail(std::string(how) + ": byte " + std::to_string(range.offset + i) + " is " +
           std::to_string(static_cast<unsigned char>(got[i])) + " instead of " +
           std::to_string(static_cast<unsigned char>(image_[range.offset + i])));
    }
  }

  void fill(char* to, size_t bytes) {
    ++generation_;
    for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(1 + (generation_ * 31 + i) % 255);
  }
  void grow_to(size_t size) {
    if (image_.size() < size) image_.resize(size);
  }
  void put(Range range, const char* from) {
    grow_to(range.end());
    std::memcpy(image_.data() + range.offset, from, range.bytes);
  }

  void write_buffered() {
    const Range range = any_range();
    note("write", range);
    fill(aligned_, range.bytes);
    must(pwrite(file(), aligned_, range.bytes, static_cast<off_t>(range.offset)) == static_cast<ssize_t>(range.bytes),
         "write");
    put(range, aligned_);
  }
  void read_buffered() {
    const Range range = range_inside();
    note("read", range);
    must(pread(file(), aligned_, range.bytes, static_cast<off_t>(range.offset)) == static_cast<ssize_t>(range.bytes),
         "read");
    compare(aligned_, range, "read");
  }
  void write_direct() {
    if (direct() < 0) return;
    const Range range = any_range(true);
    note("direct write", range);
    fill(aligned_, range.bytes);
    must(pwrite(direct(), aligned_, range.bytes, static_cast<off_t>(range.offset)) == static_cast<ssize_t>(range.bytes),
         "direct write");
    put(range, aligned_);
  }
  void read_direct() {
    if (direct() < 0) return;
    Range range = any_range(true);
    note("direct read", range);
    const ssize_t got = pread(direct(), aligned_, range.bytes, static_cast<off_t>(range.offset));
    const size_t expected = range.offset >= image_.size() ? 0 : std::min(range.bytes, image_.size() - range.offset);
    if (got != static_cast<ssize_t>(expected))
      fail("direct read of " + std::to_string(got) + " bytes instead of " + std::to_string(expected));
    range.bytes = expected;
    compare(aligned_, range, "direct read");
  }
  // Within the file: what lies behind is SIGBUS or does not count. Where several machines have the file a mapping shows
  // what it was when it was opened, and others see what was synced (docs/shared.md).
  void map(bool writes) {
    const Range range = range_inside();
    if (range.bytes == 0) return;
    if (machines() > 1) open_again(files_[turn_].buffered);
    const size_t start = range.offset / kPage * kPage;
    const size_t length = range.end() - start;
    auto* memory = static_cast<char*>(
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file(), static_cast<off_t>(start)));
    must(memory != MAP_FAILED, "mmap");
    char* at = memory + (range.offset - start);
    const bool syncs = writes && (below(2) == 0 || machines() > 1);
    note(writes ? syncs ? "map, write, msync" : "map, write" : "map, read", range);
    if (writes) {
      fill(at, range.bytes);
      put(range, at);
    } else {
      compare(at, range, "mapped");
    }
    if (syncs) must(msync(memory, length, MS_SYNC) == 0, "msync");
    must(munmap(memory, length) == 0, "munmap");
  }
  void truncate() {
    const size_t size = below(3) == 0 ? below(kMostBytes) : below(kMostBytes / kPage) * kPage;
    note("truncate", {size, 0});
    must(ftruncate(file(), static_cast<off_t>(size)) == 0, "truncate");
    image_.resize(size);
  }
  void change_layout() {
    static constexpr int kModes[] = {0,
                                     FALLOC_FL_KEEP_SIZE,
                                     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                     FALLOC_FL_ZERO_RANGE,
                                     FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
    const int mode = kModes[below(std::size(kModes))];
    const Range range = any_range();
    note(("fallocate mode " + std::to_string(mode)).c_str(), range);
    must(fallocate(file(), mode, static_cast<off_t>(range.offset), static_cast<off_t>(range.bytes)) == 0, "fallocate");
    if ((mode & FALLOC_FL_KEEP_SIZE) == 0) grow_to(range.end());
    if ((mode & ~FALLOC_FL_KEEP_SIZE) == 0 || range.offset >= image_.size()) return;
    std::memset(image_.data() + range.offset, 0, std::min(range.bytes, image_.size() - range.offset));
  }
  // The kernel's FUSE has neither; what matters is that nothing happens.
  void shift_refused() {
    const Range range = any_range(true);
    const int mode = below(2) == 0 ? FALLOC_FL_COLLAPSE_RANGE : FALLOC_FL_INSERT_RANGE;
    note("collapse or insert", range);
    if (fallocate(file(), mode, static_cast<off_t>(range.offset), static_cast<off_t>(range.bytes)) == 0 ||
        errno != EOPNOTSUPP) {
      fail("collapse and insert range are not refused");
    }
  }
  void copy() {
    const Range from = range_inside();
    const size_t to = below(kMostBytes - from.bytes + 1);
    const bool overlap = from.offset < to + from.bytes && to < from.end();
    if (from.bytes == 0 || overlap) return;
    note("copy", from, to);
    for (size_t done = 0; done < from.bytes;) {
      auto source = static_cast<off64_t>(from.offset + done);
      auto target = static_cast<off64_t>(to + done);
      const ssize_t copied = copy_file_range(file(), &source, file(), &target, from.bytes - done, 0);
      must(copied > 0, "copy_file_range");
      done += static_cast<size_t>(copied);
    }
    const std::vector<char> bytes(image_.begin() + static_cast<ssize_t>(from.offset),
                                  image_.begin() + static_cast<ssize_t>(from.end()));
    put({to, from.bytes}, bytes.data());
  }
  // A hole that the file tells of reads as zeros.
  void seek() {
    if (image_.empty()) return;
    const size_t from = below(image_.size());
    note("seek", {from, 0});
    off_t data = lseek(file(), static_cast<off_t>(from), SEEK_DATA);
    must(data >= 0 || errno == ENXIO, "SEEK_DATA");
    if (data < 0) data = static_cast<off_t>(image_.size());
    if (std::any_of(image_.begin() + static_cast<ssize_t>(from), image_.begin() + data,
                    [](char byte) { return byte != 0; })) {
      fail("data in what SEEK_DATA passes over");
    }
  }
  void forget_pages() {
    note(below(2) == 0 ? "fsync, forget pages" : "forget pages", {0, 0});
    fsync(file());
    posix_fadvise(file(), 0, 0, POSIX_FADV_DONTNEED);
  }

  void step() {
    switch (below(20)) {
      case 0:
      case 1:
      case 2:
        return write_buffered();
      case 3:
      case 4:
      case 5:
        return read_buffered();
      case 6:
        return write_direct();
      case 7:
        return read_direct();
      case 8:
      case 9:
        return map(true);
      case 10:
      case 11:
        return map(false);
      case 12:
      case 13:
        return truncate();
      case 14:
      case 15:
        return change_layout();
      case 16:
        return copy();
      case 17:
        return seek();
      case 18:
        return below(5) == 0 ? reopen() : forget_pages();
      default:
        return below(10) == 0 ? shift_refused() : read_buffered();
    }
  }

  void reopen() {
    note("reopen", {0, 0});
    close_files();
    for (size_t i = 0; i < machines(); ++i) {
      const std::string& path = i == 0 ? settings_.path : settings_.also;
      files_[i].buffered = open(path.c_str(), O_RDWR | (i == 0 ? O_CREAT : 0) | O_CLOEXEC, 0600);
      must(files_[i].buffered >= 0, "open");
      if (settings_.direct) files_[i].direct = open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
    }
  }
  void open_again(int& file) {
    must(close(std::exchange(file, -1)) == 0, "close");
    file = open(turn_ == 0 ? settings_.path.c_str() : settings_.also.c_str(), O_RDWR | O_CLOEXEC);
    must(file >= 0, "open");
  }
  void close_files() {
    for (Files& files : files_) {
      if (files.buffered >= 0) must(close(std::exchange(files.buffered, -1)) == 0, "close");
      if (files.direct >= 0) must(close(std::exchange(files.direct, -1)) == 0, "close");
    }
  }
  void remount() {
    note("remount", {0, 0});
    close_files();
    if (system(settings_.remount.c_str()) != 0) fail("the remount command fails");
    reopen();
    check_all();
  }
  void check_size() {
    struct stat stat {};
    must(fstat(file(), &stat) == 0, "fstat");
    if (static_cast<size_t>(stat.st_size) != image_.size()) {
      fail("the size is " + std::to_string(stat.st_size) + " instead of " + std::to_string(image_.size()));
    }
  }
  void check_all() {
    check_size();
    std::vector<char> all(image_.size());
    must(pread(file(), all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()), "read");
    compare(all.data(), {0, all.size()}, "whole file");
  }

  const Settings settings_;
  std::mt19937_64 random_;
  std::vector<char> image_;
  char* aligned_ = nullptr;
  Files files_[2];   // of each machine
  size_t turn_ = 0;  // which one makes the next call
  size_t generation_ = 0;
  std::deque<std::string> history_;
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("changes and reads one file in every way, against its image in memory");
  app.add_option("file", settings.path)->required();
  app.add_option("--also", settings.also, "the same file on another machine, which makes every second call");
  app.add_option("--seed", settings.seed);
  app.add_option("--operations", settings.operations);
  app.add_option("--remount", settings.remount, "a command that unmounts and mounts again");
  app.add_option("--remount-every", settings.remount_every, "operations");
  app.add_flag("!--no-direct", settings.direct);
  CLI11_PARSE(app, argc, argv);
  Exerciser(settings).run();
  printf("posix_exerciser: %llu operations as in the image, seed %llu\n",
         static_cast<unsigned long long>(settings.operations), static_cast<unsigned long long>(settings.seed));
  return 0;
}
