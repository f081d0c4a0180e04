// SPDX-License-Identifier: Apache-2.0
// What goes by a ring is seen by all as if it had gone through the kernel: the same is done to a file by a ring and to
// another through the kernel, and both are compared.
//   ring_contract DIRECTORY SECONDS off|on [SEED]      on a mount with ring=on and that writeback=, as root; prints the
//   seed
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fs/library/brickfs.h"
#include "tests/mount/ring_expect.h"

namespace {

constexpr size_t kBufferBytes = 8 << 20;
std::string directory;
bool writes_back = false;  // the kernel keeps the times of what it writes, too, for a while
std::mt19937_64 randomness;

uint64_t up_to(uint64_t most) { return std::uniform_int_distribution<uint64_t>(0, most)(randomness); }

int64_t by_kernel(ssize_t result) { return result < 0 ? -errno : result; }

struct stat attributes_of(const std::string& path) {
  struct stat attributes {};
  EXPECT(stat(path.c_str(), &attributes) == 0);
  return attributes;
}

bool is_before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

class File {
 public:
  File(const std::string& name, int flags) : path_(directory + "/" + name) {
    descriptor_ = open(path_.c_str(), flags | O_CREAT | O_CLOEXEC, 0666);
    EXPECT(descriptor_ >= 0);
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_;
};

class Ring {
 public:
  Ring() {
    const int place = open(directory.c_str(), O_RDONLY | O_DIRECTORY);
    EXPECT_EQUAL(brickfs_ring_open(place, kBufferBytes, &ring_), 0);
    close(place);
    buffer_ = static_cast<char*>(brickfs_ring_buffer(ring_));
    EXPECT_EQUAL(brickfs_ring_buffer_length(ring_), kBufferBytes);
  }
  ~Ring() { EXPECT_EQUAL(brickfs_ring_close(ring_), 0); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void add(const File& file) { EXPECT_EQUAL(brickfs_ring_add(ring_, file.descriptor()), 0); }
  void remove(const File& file) { EXPECT_EQUAL(brickfs_ring_remove(ring_, file.descriptor()), 0); }
  int64_t read(const File& file, uint64_t length, uint64_t offset, uint64_t at = 0) {
    return brickfs_ring_pread(ring_, file.descriptor(), buffer_ + at, length, offset);
  }
  int64_t write(const File& file, const void* data, uint64_t length, uint64_t offset) {
    memcpy(buffer_, data, length);
    return brickfs_ring_pwrite(ring_, file.descriptor(), buffer_, length, offset);
  }
  int sync(const File& file) { return brickfs_ring_fsync(ring_, file.descriptor()); }
  char* buffer() { return buffer_; }
  brickfs_ring* raw() { return ring_; }

 private:
  brickfs_ring* ring_ = nullptr;
  char* buffer_ = nullptr;
};

std::string whole(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT(descriptor >= 0);
  std::string text(static_cast<size_t>(attributes_of(path).st_size), '\0');
  EXPECT_EQUAL(pread(descriptor, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(descriptor);
  return text;
}

std::string random_bytes(uint64_t length) {
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(randomness());
  return bytes;
}

// Whoever looks between two steps: a descriptor of another kind, mapped memory, or nobody.
void look_in_between(const std::string& a, const std::string& b) {
  switch (up_to(12)) {
    case 0:
      EXPECT(whole(a) == whole(b));
      break;
    case 1:
      EXPECT_EQUAL(attributes_of(a).st_size, attributes_of(b).st_size);
      break;
    default:
      break;
  }
}

// One step on a file by a ring and on one through the kernel.
void step(Ring& ring, const File& a, const File& b, int flags) {
  constexpr uint64_t kMostBytes = 6 << 20;
  const uint64_t size = static_cast<uint64_t>(attributes_of(b.path()).st_size);
  const uint64_t length = up_to(9) == 0 ? up_to(kMostBytes) : up_to(40'000);
  const uint64_t offset = up_to(size + 20'000);
  switch (up_to(7)) {
    case 0:
    case 1:
    case 2: {
      const std::string bytes = random_bytes(length);
      EXPECT_EQUAL(ring.write(a, bytes.data(), length, offset),
                   by_kernel(pwrite(b.descriptor(), bytes.data(), length, static_cast<off_t>(offset))));
      break;
    }
    case 3:
    case 4: {
      std::string bytes(length, '\0');
      const int64_t count = by_kernel(pread(b.descriptor(), bytes.data(), length, static_cast<off_t>(offset)));
      memset(ring.buffer(), 0x55, length);
      EXPECT_EQUAL(ring.read(a, length, offset), count);
      EXPECT(count < 0 || memcmp(bytes.data(), ring.buffer(), static_cast<size_t>(count)) == 0);
      break;
    }
    case 5:
      EXPECT_EQUAL(ring.sync(a), by_kernel(fsync(b.descriptor())));
      break;
    case 6: {  // through the kernel, in both
      const std::string bytes = random_bytes(length / 8);
      for (const File* file : {&a, &b}) {
        const int other = open(file->path().c_str(), O_WRONLY | (flags & O_APPEND) | O_CLOEXEC);
        EXPECT(pwrite(other, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
               static_cast<ssize_t>(bytes.size()));
        close(other);
      }
      break;
    }
    default: {
      const uint64_t to = up_to(size + 5'000);
      EXPECT(truncate(a.path().c_str(), static_cast<off_t>(to)) == 0);
      EXPECT(truncate(b.path().c_str(), static_cast<off_t>(to)) == 0);
      break;
    }
  }
  if (size > (40 << 20)) EXPECT(truncate(a.path().c_str(), 0) == 0 && truncate(b.path().c_str(), 0) == 0);
}

void steps_in_turns(int flags, std::chrono::milliseconds time) {
  File a("by_ring", flags | O_TRUNC);
  File b("by_kernel", flags | O_TRUNC);
  Ring ring;
  ring.add(a);
  const auto end = std::chrono::steady_clock::now() + time;
  int steps = 0;
  for (; std::chrono::steady_clock::now() < end; ++steps) {
    step(ring, a, b, flags);
    look_in_between(a.path(), b.path());
  }
  EXPECT(whole(a.path()) == whole(b.path()));
  printf("flags %o: %d steps\n", static_cast<unsigned>(flags), steps);
}

void what_a_descriptor_may(Ring& ring) {
  const File file("access", O_RDWR | O_TRUNC);
  const File reads("access", O_RDONLY);
  const File writes("access", O_WRONLY);
  EXPECT_EQUAL(ring.read(file, 1, 0), -EBADF);  // nobody has added it
  for (const File* added : {&file, &reads, &writes}) ring.add(*added);
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), file.descriptor()), -EEXIST);
  EXPECT_EQUAL(ring.write(file, "abc", 3, 0), 3);
  EXPECT_EQUAL(ring.read(writes, 1, 0), -EBADF);
  EXPECT_EQUAL(ring.write(reads, "x", 1, 0), -EBADF);
  EXPECT_EQUAL(ring.write(writes, "x", 1, 1), 1);
  EXPECT_EQUAL(ring.read(reads, 10, 0), 3);
  EXPECT(memcmp(ring.buffer(), "axc", 3) == 0);
  EXPECT_EQUAL(ring.read(file, 10, 3), 0);
  EXPECT_EQUAL(ring.read(file, 10, 1'000'000), 0);
  EXPECT_EQUAL(ring.read(file, 0, 0), 0);
  EXPECT_EQUAL(ring.sync(reads), 0);
  char elsewhere = 0;
  EXPECT_EQUAL(brickfs_ring_pread(ring.raw(), file.descriptor(), &elsewhere, 1, 0), -EINVAL);
  EXPECT_EQUAL(ring.read(file, kBufferBytes + 1, 0), -EINVAL);
  EXPECT_EQUAL(ring.read(file, 1, UINT64_MAX), -EINVAL);
  for (const File* added : {&file, &reads, &writes}) ring.remove(*added);
  EXPECT_EQUAL(brickfs_ring_remove(ring.raw(), file.descriptor()), -EBADF);
}

void what_is_no_file_of_it(Ring& ring) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int place = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int path = open((directory + "/access").c_str(), O_PATH | O_CLOEXEC);
  int pipes[2];
  EXPECT(pipe2(pipes, O_CLOEXEC) == 0);
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), null), -EXDEV);
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), pipes[0]), -EXDEV);
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), place), -EINVAL);
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), path), -EBADF);
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), 9'999), -EBADF);
  brickfs_ring* none = nullptr;
  EXPECT_EQUAL(brickfs_ring_open(null, kBufferBytes, &none), -EOPNOTSUPP);
  EXPECT_EQUAL(brickfs_ring_open(place, 0, &none), -EINVAL);
  EXPECT_EQUAL(brickfs_ring_open(place, (64 << 20) + 1, &none), -EINVAL);
  for (const int descriptor : {null, place, path, pipes[0], pipes[1]}) close(descriptor);
}

void mapped_memory(Ring& ring) {
  const File file("mapped", O_RDWR | O_TRUNC);
  EXPECT(ftruncate(file.descriptor(), 1 << 20) == 0);
  ring.add(file);
  auto* const mapped =
      static_cast<char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0));
  EXPECT(mapped != MAP_FAILED);
  for (int i = 0; i < 200; ++i) {
    const uint64_t offset = up_to((1 << 20) - 64);
    const std::string bytes = random_bytes(64);
    if (i % 2 == 0) {
      memcpy(mapped + offset, bytes.data(), 64);
      EXPECT_EQUAL(ring.read(file, 64, offset), 64);
      EXPECT(memcmp(ring.buffer(), bytes.data(), 64) == 0);
    } else {
      EXPECT_EQUAL(ring.write(file, bytes.data(), 64, offset), 64);
      EXPECT(memcmp(mapped + offset, bytes.data(), 64) == 0);
    }
  }
  memcpy(mapped, "stored", 6);
  EXPECT_EQUAL(ring.sync(file), 0);
  munmap(mapped, 1 << 20);
  ring.remove(file);
}

void times(Ring& ring) {
  const File file("times", O_RDWR | O_TRUNC);
  // A hole, of which the kernel has no pages: of those it would read without a time, where it has to (decision 74).
  EXPECT(ftruncate(file.descriptor(), 10) == 0);
  ring.add(file);
  for (int i = 0; i < 5; ++i) {
    const struct stat before = attributes_of(file.path());
    usleep(20'000);
    EXPECT_EQUAL(ring.write(file, "x", 1, static_cast<uint64_t>(i)), 1);
    const struct stat after = attributes_of(file.path());
    EXPECT(is_before(before.st_mtim, after.st_mtim) && is_before(before.st_ctim, after.st_ctim));
    EXPECT(after.st_mtim.tv_nsec == after.st_ctim.tv_nsec);
    usleep(20'000);
    EXPECT_EQUAL(ring.read(file, 10, 0), 10);
    const struct stat read = attributes_of(file.path());
    EXPECT(writes_back || is_before(after.st_mtim, read.st_atim));
    EXPECT(read.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
  }
  ring.remove(file);
}

// In a process of its own, which answers with its end.
void apart(const std::function<void()>& what) {
  fflush(nullptr);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    what();
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void limits() {
  apart([] {
    const File file("limits", O_RDWR | O_TRUNC);
    EXPECT(ftruncate(file.descriptor(), 100'000) == 0);
    Ring ring;
    ring.add(file);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50'000, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    EXPECT_EQUAL(ring.write(file, "x", 1, 49'999), 1);
    EXPECT_EQUAL(ring.write(file, "xyz", 3, 49'998), by_kernel(pwrite(file.descriptor(), "xyz", 3, 49'998)));
    EXPECT_EQUAL(ring.write(file, "x", 1, 50'000), -EFBIG);
    signal(SIGXFSZ, SIG_DFL);
    // The signal is the kernel's: it ends a process that does not mind.
    const pid_t child = fork();
    if (child == 0) {
      brickfs_ring* own = nullptr;
      if (brickfs_ring_open(file.descriptor(), 4096, &own) != 0 || brickfs_ring_add(own, file.descriptor()) != 0)
        _exit(1);
      (void)brickfs_ring_pwrite(own, file.descriptor(), brickfs_ring_buffer(own), 1, 60'000);
      _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
  });
  Ring ring;
  const File file("largest", O_RDWR | O_TRUNC);
  ring.add(file);
  EXPECT_EQUAL(ring.write(file, "x", 1, INT64_MAX), by_kernel(pwrite(file.descriptor(), "x", 1, INT64_MAX)));
  EXPECT_EQUAL(ring.write(file, "xy", 2, INT64_MAX - 1), by_kernel(pwrite(file.descriptor(), "xy", 2, INT64_MAX - 1)));
  EXPECT_EQUAL(ring.read(file, 2, INT64_MAX - 1), by_kernel(pread(file.descriptor(), ring.buffer(), 2, INT64_MAX - 1)));
  ring.remove(file);
}

void set_id_bits() {
  const File file("set_id", O_RDWR | O_TRUNC);
  EXPECT_EQUAL(pwrite(file.descriptor(), "0123456789", 10, 0), 10);
  for (const bool by_root : {true, false}) {
    for (const mode_t mode : {06777U, 06767U, 0777U}) {
      mode_t left[2];
      for (const bool by_ring : {false, true}) {
        EXPECT(fchmod(file.descriptor(), mode) == 0);
        apart([&] {
          if (!by_root) EXPECT(setgid(1234) == 0 && setuid(1234) == 0);
          const int own = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
          EXPECT(own >= 0);
          if (!by_ring) {
            EXPECT_EQUAL(pwrite(own, "x", 1, 3), 1);
            return;
          }
          brickfs_ring* ring = nullptr;
          EXPECT_EQUAL(brickfs_ring_open(own, 4096, &ring), 0);
          EXPECT_EQUAL(brickfs_ring_add(ring, own), 0);
          EXPECT_EQUAL(brickfs_ring_pwrite(ring, own, brickfs_ring_buffer(ring), 1, 3), 1);
        });
        left[by_ring ? 1 : 0] = attributes_of(file.path()).st_mode & 07777;
      }
      EXPECT_EQUAL(left[0], left[1]);
    }
  }
}

// A ring keeps no lock of a file after its program's last descriptor, and no file.
void locks_and_unlinked(Ring& ring) {
  int added = -1;
  {
    const File file("locked", O_RDWR | O_TRUNC);
    added = file.descriptor();
    EXPECT(flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0);
    ring.add(file);
    EXPECT_EQUAL(ring.write(file, "x", 1, 0), 1);
    const File other("locked", O_RDWR);
    EXPECT(flock(other.descriptor(), LOCK_EX | LOCK_NB) != 0);
  }
  const File other("locked", O_RDWR);
  EXPECT(flock(other.descriptor(), LOCK_EX | LOCK_NB) == 0);
  EXPECT_EQUAL(brickfs_ring_remove(ring.raw(), added), 0);

  const File gone("gone", O_RDWR | O_TRUNC);
  EXPECT_EQUAL(pwrite(gone.descriptor(), "0123456789", 10, 0), 10);
  ring.add(gone);
  EXPECT(unlink(gone.path().c_str()) == 0);
  EXPECT_EQUAL(ring.write(gone, "x", 1, 0), 1);
  EXPECT_EQUAL(ring.read(gone, 10, 0), 10);
  EXPECT(memcmp(ring.buffer(), "x123456789", 10) == 0);
  ring.remove(gone);
}

void queue(Ring& ring, unsigned flags) {
  constexpr unsigned kDepth = 64;
  constexpr size_t kBytes = 4096;
  const File file("queue", O_RDWR | O_TRUNC);
  EXPECT(posix_fallocate(file.descriptor(), 0, kDepth * kBytes) == 0);
  ring.add(file);
  brickfs_queue* queue = nullptr;
  EXPECT_EQUAL(brickfs_ring_queue(ring.raw(), 257, flags, &queue), -EINVAL);
  EXPECT_EQUAL(brickfs_ring_queue(ring.raw(), kDepth, flags, &queue), 0);
  EXPECT_EQUAL(brickfs_ring_close(ring.raw()), -EBUSY);
  pollfd readable{brickfs_queue_descriptor(queue), POLLIN, 0};
  EXPECT_EQUAL(readable.fd >= 0, flags != 0);
  std::vector<brickfs_request> requests(kDepth);
  std::vector<brickfs_completion> completions(kDepth);
  const auto run = [&](uint32_t operation, int64_t each) {
    for (unsigned i = 0; i < kDepth; ++i) {
      requests[i] = {};
      requests[i].operation = operation;
      requests[i].descriptor = file.descriptor();
      requests[i].offset = i * kBytes;
      requests[i].data = ring.buffer() + i * kBytes;
      requests[i].length = kBytes;
      requests[i].user_data = i;
    }
    EXPECT_EQUAL(brickfs_submit(queue, requests.data(), kDepth), static_cast<int>(kDepth));
    uint64_t seen = 0;
    for (unsigned done = 0; done < kDepth;) {
      if (flags != 0) EXPECT_EQUAL(poll(&readable, 1, 20'000), 1);
      const int count = brickfs_poll(queue, completions.data(), kDepth, flags != 0 ? 0 : 1, -1);
      EXPECT(count > 0);
      for (int i = 0; i < count; ++i) {
        EXPECT_EQUAL(completions[static_cast<size_t>(i)].result, each);
        seen |= uint64_t{1} << completions[static_cast<size_t>(i)].user_data;
      }
      done += static_cast<unsigned>(count);
    }
    EXPECT_EQUAL(seen, UINT64_MAX);
  };
  const std::string bytes = random_bytes(kDepth * kBytes);
  for (int round = 0; round < 20; ++round) {
    memcpy(ring.buffer(), bytes.data(), bytes.size());
    run(BRICKFS_WRITE, kBytes);
    run(BRICKFS_FSYNC, 0);
    memset(ring.buffer(), 0, bytes.size());
    run(BRICKFS_READ, kBytes);
    EXPECT(memcmp(ring.buffer(), bytes.data(), bytes.size()) == 0);
  }
  requests[0].descriptor = 9'999;
  requests[1].data = &requests;
  requests[2].operation = 77;
  EXPECT_EQUAL(brickfs_submit(queue, requests.data(), 3), 3);
  EXPECT_EQUAL(brickfs_poll(queue, completions.data(), 3, 3, -1), 3);
  EXPECT_EQUAL(completions[0].result, -EBADF);
  EXPECT_EQUAL(completions[1].result, -EINVAL);
  EXPECT_EQUAL(completions[2].result, -EINVAL);
  EXPECT_EQUAL(brickfs_poll(queue, completions.data(), 3, 1, 0), 0);
  if (flags != 0) EXPECT_EQUAL(poll(&readable, 1, 0), 0);
  EXPECT_EQUAL(brickfs_queue_free(queue), 0);
  ring.remove(file);
}

// More files than a ring has, and all of them given back.
void many_files(Ring& ring) {
  const File file("many", O_RDWR | O_TRUNC);
  std::vector<int> descriptors;
  for (int i = 0; i < 1024; ++i) {
    descriptors.push_back(fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 3));
    EXPECT_EQUAL(brickfs_ring_add(ring.raw(), descriptors.back()), 0);
  }
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), file.descriptor()), -EMFILE);
  for (const int descriptor : descriptors) {
    EXPECT_EQUAL(brickfs_ring_remove(ring.raw(), descriptor), 0);
    close(descriptor);
  }
  ring.add(file);
  EXPECT_EQUAL(ring.write(file, "x", 1, 0), 1);
  ring.remove(file);
}

// Before Linux 6.16 what the kernel has in its cache is left to it (decision 74).
bool kernel_serves_what_it_has() {
  utsname system{};
  int major = 0;
  int minor = 0;
  EXPECT(uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2);
  return major < 6 || (major == 6 && minor < 16);
}

class Events {
 public:
  explicit Events(const std::string& path) {
    EXPECT(descriptor_ >= 0 && inotify_add_watch(descriptor_, path.c_str(), IN_MODIFY | IN_ACCESS) >= 0);
  }
  ~Events() { close(descriptor_); }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  // Those since it was last asked.
  uint32_t take() {
    uint32_t mask = 0;
    inotify_event event;
    while (read(descriptor_, &event, sizeof(event)) == static_cast<ssize_t>(sizeof(event))) mask |= event.mask;
    EXPECT(errno == EAGAIN);
    return mask;
  }

 private:
  const int descriptor_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
};

constexpr uint64_t kBeginning = 16;

int64_t rewrite(Ring& ring, int descriptor, const std::string& text, uint64_t offset) {
  memcpy(ring.buffer(), text.data(), kBeginning);
  return brickfs_ring_pwrite(ring.raw(), descriptor, ring.buffer(), kBeginning, offset);
}

void no_events(Ring& ring, int descriptor, const std::string& path, const std::string& text) {
  const uint32_t if_cached = kernel_serves_what_it_has() ? UINT32_MAX : 0;
  const auto read_by_ring = [&] {
    EXPECT_EQUAL(brickfs_ring_pread(ring.raw(), descriptor, ring.buffer(), kBeginning, 0), int64_t{kBeginning});
  };
  Events events(path);
  EXPECT_EQUAL(rewrite(ring, descriptor, text, 0), int64_t{kBeginning});
  read_by_ring();
  EXPECT_EQUAL(events.take(), 0U);
  EXPECT_EQUAL(pwrite(descriptor, text.data(), kBeginning, 0), static_cast<ssize_t>(kBeginning));
  EXPECT_EQUAL(events.take(), uint32_t{IN_MODIFY});
  EXPECT(whole(path) == text);  // from now on the kernel has it
  EXPECT_EQUAL(events.take(), uint32_t{IN_ACCESS});
  read_by_ring();
  EXPECT_EQUAL(events.take(), IN_ACCESS & if_cached);
  EXPECT_EQUAL(rewrite(ring, descriptor, text, 0), int64_t{kBeginning});
  EXPECT_EQUAL(events.take(), IN_MODIFY & if_cached);
}

void no_lease_broken(Ring& ring, int descriptor, const std::string& text) {
  EXPECT_EQUAL(fcntl(descriptor, F_SETLEASE, F_RDLCK), 0);
  EXPECT_EQUAL(rewrite(ring, descriptor, text, 0), int64_t{kBeginning});
  EXPECT_EQUAL(fcntl(descriptor, F_GETLEASE), F_RDLCK);
  EXPECT_EQUAL(fcntl(descriptor, F_SETLEASE, F_UNLCK), 0);
}

// `descriptor` only reads by now.
void no_text_busy(Ring& ring, int descriptor, const std::string& path, const std::string& text, uint64_t far) {
  int started[2];  // closed by exec(3)
  EXPECT_EQUAL(pipe2(started, O_CLOEXEC), 0);
  const pid_t running = fork();
  if (running == 0) {
    execl(path.c_str(), "sleep", "60", nullptr);
    _exit(1);
  }
  close(started[1]);
  char nothing = 0;
  EXPECT_EQUAL(read(started[0], &nothing, 1), 0);
  close(started[0]);
  EXPECT(open(path.c_str(), O_RDWR | O_CLOEXEC) < 0 && errno == ETXTBSY);
  EXPECT_EQUAL(rewrite(ring, descriptor, text, far), int64_t{kBeginning});
  // The beginning the kernel has, as it runs. Where it has to write there itself it looks at the descriptor.
  EXPECT_EQUAL(rewrite(ring, descriptor, text, 0), kernel_serves_what_it_has() ? -EBADF : int64_t{kBeginning});
  EXPECT(kill(running, SIGKILL) == 0 && waitpid(running, nullptr, 0) == running);
}

// docs/posix.md, of rings: no events, no lease that is broken, no text that is busy.
void what_the_kernel_does_not_know(Ring& ring) {
  constexpr uint64_t kFar = 8 << 20;  // from what the kernel reads ahead
  const std::string text = whole("/bin/sleep");
  const std::string path = directory + "/unknown";
  const int maker = open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0777);  // the kernel has no pages of it
  EXPECT_EQUAL(pwrite(maker, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  EXPECT_EQUAL(brickfs_ring_add(ring.raw(), maker), 0);
  no_events(ring, maker, path, text);
  EXPECT_EQUAL(pwrite(maker, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));  // nor has it now
  EXPECT(ftruncate(maker, 2 * kFar) == 0);
  close(maker);
  const int reader = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQUAL(reader, maker);  // the library has the kernel write pages back with it
  no_lease_broken(ring, reader, text);
  no_text_busy(ring, reader, path, text, kFar);
  EXPECT_EQUAL(brickfs_ring_remove(ring.raw(), maker), 0);
  close(reader);
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc >= 4);
  directory = argv[1];
  writes_back = std::string(argv[3]) == "on";
  const uint64_t seed = argc > 4 ? strtoull(argv[4], nullptr, 10) : std::random_device()();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  fflush(stdout);
  randomness.seed(seed);
  const rlimit files{4096, 4096};
  EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
  umask(0);
  {
    Ring ring;
    what_a_descriptor_may(ring);
    what_is_no_file_of_it(ring);
    mapped_memory(ring);
    times(ring);
    locks_and_unlinked(ring);
    queue(ring, 0);
    queue(ring, BRICKFS_QUEUE_BACKGROUND);
    many_files(ring);
    if (!writes_back) what_the_kernel_does_not_know(ring);
  }
  limits();
  set_id_bits();
  const std::chrono::milliseconds time(static_cast<int64_t>(strtod(argv[2], nullptr) * 1'000));
  for (const int flags : {O_RDWR, O_RDWR | O_APPEND, O_RDWR | O_DIRECT, O_RDWR | O_DSYNC})
    steps_in_turns(flags, time / 4);
  return 0;
}
