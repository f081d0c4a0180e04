// SPDX-License-Identifier: Apache-2.0
// stale_pages FILE SECONDS [DEPTH]: one writer with asynchronous O_DIRECT writes beside readers through the page cache,
// by pread(2) and by mapped memory. What a write returned for is what they find: at once but for a moment, and in the
// end everywhere. So it is with holes punched and ranges copied. Exit 1: it is not.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPage = 4096;
constexpr size_t kPages = 512;  // written asynchronously; as many behind them are punched and copied into
constexpr std::chrono::seconds kAMoment{2};

void check(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(2);
}

class Test {
 public:
  Test(const char* path, unsigned depth) : depth_(depth), versions_(kPages) {
    direct_ = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0644);
    check(direct_ >= 0, "open");
    buffered_ = open(path, O_RDWR);
    check(buffered_ >= 0 && ftruncate(buffered_, 2 * kPages * kPage) == 0, "ftruncate");
    void* const memory = aligned_alloc(kPage, depth * kPage);
    check(memory != nullptr, "aligned_alloc");
    buffers_ = static_cast<char*>(memory);
    for (size_t page = 0; page < 2 * kPages; ++page) {
      fill(buffers_, 1);
      check(pwrite(direct_, buffers_, kPage, static_cast<off_t>(page * kPage)) == kPage, "pwrite");
    }
    std::fill(versions_.begin(), versions_.end(), 1);
    map_ = static_cast<const char*>(mmap(nullptr, 2 * kPages * kPage, PROT_READ, MAP_SHARED, buffered_, 0));
    check(map_ != MAP_FAILED, "mmap");
    check(syscall(SYS_io_setup, depth, &context_) == 0, "io_setup");
  }

  int run(Clock::time_point until) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) threads.emplace_back([this, i] { read_anywhere(i); });
    threads.emplace_back([this] { punch_and_copy(); });
    write_until(until);
    done_ = true;
    for (std::thread& thread : threads) thread.join();
    for (size_t page = 0; page < kPages; ++page) {
      if (found(page) != versions_[page] || mapped(page) != versions_[page]) ++stale_;
    }
    std::printf("%lu writes, %lu found a moment later, %lu punched or copied, %lu stale\n", writes_, late_,
                changes_.load(), stale_.load());
    return stale_ == 0 ? 0 : 1;
  }

 private:
  static void fill(char* page, uint64_t version) {
    for (size_t at = 0; at < kPage; at += sizeof(version)) std::memcpy(page + at, &version, sizeof(version));
  }

  // 0: torn, which a reader beside a write may see.
  static uint64_t version_in(const char* page) {
    uint64_t first = 0;
    uint64_t last = 0;
    std::memcpy(&first, page, sizeof(first));
    std::memcpy(&last, page + kPage - sizeof(last), sizeof(last));
    return first == last ? first : 0;
  }
  uint64_t found(size_t page) const {
    char bytes[kPage];
    check(pread(buffered_, bytes, kPage, static_cast<off_t>(page * kPage)) == kPage, "pread");
    return version_in(bytes);
  }
  uint64_t mapped(size_t page) const { return version_in(map_ + page * kPage); }

  void read_anywhere(unsigned which) {
    std::mt19937_64 random(which);
    while (!done_) {
      const size_t page = random() % (2 * kPages);
      if (which == 0) {
        (void)mapped(page);
      } else {
        (void)found(page);
      }
    }
  }

  void write_until(Clock::time_point until) {
    std::mt19937_64 random(99);
    std::vector<iocb> requests(depth_);
    std::vector<bool> busy(kPages);
    for (unsigned slot = 0; slot < depth_; ++slot) submit(requests[slot], slot, busy, random);
    for (unsigned under_way = depth_; under_way > 0;) {
      io_event event{};
      const long got = syscall(SYS_io_getevents, context_, 1, 1, &event, nullptr);
      if (got < 0 && errno == EINTR) continue;
      check(got == 1 && event.res == kPage, "a write");
      iocb& request = *reinterpret_cast<iocb*>(event.obj);
      const size_t page = static_cast<size_t>(request.aio_offset) / kPage;
      const auto slot = static_cast<unsigned>(&request - requests.data());
      versions_[page] = request.aio_data;
      ++writes_;
      expect(page, request.aio_data);
      busy[page] = false;
      if (Clock::now() < until) {
        submit(request, slot, busy, random);
      } else {
        --under_way;
      }
    }
  }

  void submit(iocb& request, unsigned slot, std::vector<bool>& busy, std::mt19937_64& random) {
    size_t page = random() % kPages;
    while (busy[page]) page = (page + 1) % kPages;
    busy[page] = true;
    request = {};
    request.aio_data = ++last_version_;
    request.aio_lio_opcode = IOCB_CMD_PWRITE;
    request.aio_fildes = static_cast<uint32_t>(direct_);
    request.aio_buf = reinterpret_cast<uint64_t>(buffers_ + slot * kPage);
    request.aio_nbytes = kPage;
    request.aio_offset = static_cast<int64_t>(page * kPage);
    fill(buffers_ + slot * kPage, last_version_);
    iocb* one = &request;
    check(syscall(SYS_io_submit, context_, 1, &one) == 1, "io_submit");
  }

  // The page was written, and nobody is writing it.
  void expect(size_t page, uint64_t version) {
    if (found(page) == version && mapped(page) == version) return;
    ++late_;
    const auto until = Clock::now() + kAMoment;
    while (found(page) != version || mapped(page) != version) {
      if (Clock::now() < until) continue;
      if (stale_++ < 5)
        std::printf("page %zu: %lu, mapped %lu, written %lu\n", page, found(page), mapped(page), version);
      return;
    }
  }

  // Of the other half of the file; these calls wait, and the kernel sees to its pages.
  void punch_and_copy() {
    std::mt19937_64 random(7);
    while (!done_) {
      const size_t page = kPages + random() % kPages;
      const auto at = static_cast<off_t>(page * kPage);
      uint64_t wanted = 0;
      if (random() % 2 == 0) {
        check(fallocate(direct_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, kPage) == 0, "fallocate");
      } else {
        const size_t source = kPages + (page + 1 + random() % (kPages - 1)) % kPages;
        auto from = static_cast<off_t>(source * kPage);
        off_t to = at;
        wanted = found(source);
        check(copy_file_range(buffered_, &from, direct_, &to, kPage, 0) == kPage, "copy_file_range");
      }
      ++changes_;
      if (found(page) != wanted || mapped(page) != wanted) ++stale_;
    }
  }

  const unsigned depth_;
  int direct_ = -1;
  int buffered_ = -1;
  char* buffers_ = nullptr;
  const char* map_ = nullptr;
  aio_context_t context_ = 0;
  std::vector<uint64_t> versions_;  // that writes returned for
  uint64_t last_version_ = 1;
  uint64_t writes_ = 0;
  uint64_t late_ = 0;
  std::atomic<uint64_t> changes_{0};
  std::atomic<uint64_t> stale_{0};
  std::atomic<bool> done_{false};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  Test test(argv[1], argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 16);
  return test.run(Clock::now() + std::chrono::seconds(std::atoi(argv[2])));
}
