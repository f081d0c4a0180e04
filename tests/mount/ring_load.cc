// SPDX-License-Identifier: Apache-2.0
// A program that uses a ring, to be killed, or to see its mount end.
//   ring_load work FILE PLACE SECONDS  writes and reads 64 KiB of FILE at PLACE * 64 KiB over and over; 0: for ever
//   ring_load crowd FILE               has all rings that are to be had, prints how many, and waits for a line
//   ring_load scribble FILE SECONDS    writes 12 MiB of FILE over and over, of a buffer that another thread changes
//   ring_load write FILE               closes FILE and, once it has read a line, writes all the same: EBADF
//   ring_load hold FILE                has a ring, and no file open, until the ring ends
//   ring_load read FILE                reads FILE by a ring now and then, until that ends
//   ring_load spin FILE                the same, without a pause
// The last four print "begun", the last three "ended" when they are answered ENOTCONN.
#include <fcntl.h>
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

constexpr size_t kBytes = 64 * 1024;

[[noreturn]] void fail(const char* what, int64_t result) {
  fprintf(stderr, "%s: %s\n", what, strerror(static_cast<int>(-result)));
  exit(1);
}

void tell(const char* word) {
  puts(word);
  fflush(stdout);
}

void work(brickfs_ring* ring, int file, uint64_t place, double seconds) {
  auto* const buffer = static_cast<char*>(brickfs_ring_buffer(ring));
  char* const again = buffer + kBytes;
  std::mt19937_64 randomness(place);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (uint64_t round = 0; seconds == 0 || std::chrono::steady_clock::now() < end; ++round) {
    const size_t offset = randomness() % kBytes;
    const size_t length = randomness() % (kBytes - offset) + 1;
    memset(buffer, static_cast<int>(randomness()), length);
    const uint64_t at = place * kBytes + offset;
    const int64_t written = brickfs_ring_pwrite(ring, file, buffer, length, at);
    if (written != static_cast<int64_t>(length)) fail("a write", written);
    const int64_t read = brickfs_ring_pread(ring, file, again, length, at);
    if (read != written) fail("a read", read);
    if (memcmp(buffer, again, length) != 0) fail("other bytes", 0);
    if (round % 64 == 0 && brickfs_ring_fsync(ring, file) != 0) fail("an fsync", 0);
  }
}

// One ring is there already.
void crowd(int file) {
  brickfs_ring* ring = nullptr;
  int opened = 0;
  int count = 1;
  while ((opened = brickfs_ring_open(file, 1, &ring)) == 0) ++count;
  if (opened != -EUSERS) fail("not EUSERS", opened);
  tell(std::to_string(count).c_str());
  (void)getchar();
}

void scribble(brickfs_ring* ring, int file, double seconds) {
  constexpr uint64_t kPlaces = 192;
  auto* const words = static_cast<std::atomic<uint32_t>*>(brickfs_ring_buffer(ring));
  std::atomic<bool> stopping{false};
  std::thread other([&] {
    for (uint32_t word = 0; !stopping; ++word) words[word * 16 % (kBytes / 4)] = word;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t written = kBytes;
  for (uint64_t round = 0; written == kBytes && std::chrono::steady_clock::now() < end; ++round)
    written = brickfs_ring_pwrite(ring, file, words, kBytes, round % kPlaces * kBytes);
  stopping = true;
  other.join();
  if (written != kBytes) fail("a write", written);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  const int file = open(argv[2], O_RDWR | O_CLOEXEC);
  if (file < 0) fail(argv[2], -errno);
  brickfs_ring* ring = nullptr;
  if (const int opened = brickfs_ring_open(file, 2 * kBytes, &ring); opened != 0) fail("brickfs_ring_open", opened);
  if (const int added = brickfs_ring_add(ring, file); added != 0) fail("brickfs_ring_add", added);
  if (what == "work") {
    work(ring, file, strtoull(argv[3], nullptr, 10), strtod(argv[4], nullptr));
    return brickfs_ring_remove(ring, file) == 0 && brickfs_ring_close(ring) == 0 ? 0 : 1;
  }
  if (what == "scribble") {
    scribble(ring, file, strtod(argv[3], nullptr));
    return brickfs_ring_close(ring) == 0 ? 0 : 1;
  }
  if (what == "crowd") return crowd(file), 0;
  int64_t result = 0;
  if (what == "write") {
    close(file);
    tell("begun");
    (void)getchar();
    result = brickfs_ring_pwrite(ring, file, brickfs_ring_buffer(ring), 1, 0);
    if (result != -EBADF) fail("not EBADF", result);
    return 0;
  }
  if (what == "hold") {
    if (brickfs_ring_remove(ring, file) != 0) fail("brickfs_ring_remove", 0);
    close(file);
    tell("begun");
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while ((result = brickfs_ring_add(ring, null)) == -EXDEV) usleep(20'000);
  } else {
    tell("begun");
    while ((result = brickfs_ring_pread(ring, file, brickfs_ring_buffer(ring), 4096, 0)) >= 0) {
      if (what == "read") usleep(1'000);
    }
  }
  if (result != -ENOTCONN) fail("not ENOTCONN", result);
  tell("ended");
  return brickfs_ring_close(ring) == 0 ? 0 : 1;
}
