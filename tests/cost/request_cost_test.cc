// SPDX-License-Identifier: Apache-2.0
// What one request for 4 KiB costs from its arrival to its answer, over TCP, when it is not the first: locks taken and
// heap allocations made, counted by taking the place of libpthread's and libc's functions. The device is a pair of
// sockets; everything else is the product's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "fs/fuse/serve/device_source.h"
#include "fs/fuse/serve/worker.h"
#include "tests/support/fuse_bed.h"
#include "tests/support/tcp_test_brick.h"

namespace {

struct Counts {
  std::atomic<uint64_t> mutexes{0};
  std::atomic<uint64_t> shared{0};  // locks that several may hold
  std::atomic<uint64_t> allocations{0};
};
Counts of_all;
constinit thread_local Counts of_thread;

void note(std::atomic<uint64_t> Counts::*what) {
  (of_all.*what).fetch_add(1, std::memory_order_relaxed);
  (of_thread.*what).fetch_add(1, std::memory_order_relaxed);
}

template <typename Function>
Function* real(std::atomic<Function*>& known, const char* name) {
  Function* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
    known.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace

extern "C" {
#define COUNTED_LOCK(name, type, what)                 \
  int name(type* lock) noexcept {                      \
    static std::atomic<int (*)(type*)> known{nullptr}; \
    note(&Counts::what);                               \
    return real(known, #name)(lock);                   \
  }
COUNTED_LOCK(pthread_mutex_lock, pthread_mutex_t, mutexes)
COUNTED_LOCK(pthread_mutex_trylock, pthread_mutex_t, mutexes)
COUNTED_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t, shared)
COUNTED_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t, shared)
#undef COUNTED_LOCK

// By operator new, too.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* malloc(size_t bytes) noexcept {
  note(&Counts::allocations);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  note(&Counts::allocations);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
  note(&Counts::allocations);
  return __libc_realloc(memory, bytes);
}
}

namespace brickfs {
namespace {

struct Cost {
  double mutexes = 0;
  double shared = 0;
  double allocations = 0;

  Cost operator-(const Cost& other) const {
    return {mutexes - other.mutexes, shared - other.shared, allocations - other.allocations};
  }
};

// Of a request: on the thread that serves it, and on all others but the asker's (the brick's, the journal's).
struct Costs {
  Cost worker;
  Cost others;
};

class RequestCost : public ::testing::Test {
 protected:
  static constexpr int kRequests = 2'000;
  static constexpr int kPages = 16;
  static constexpr size_t kPage = 4096;

  RequestCost() : brick_(testing::memory_config(64)), bed_({}, brick_.connect()), queue_(bed_.kernel().device()) {
    auto source = std::make_unique<FuseDeviceSource>(bed_.volume(), bed_.session().cache(), bed_.session().operations(),
                                                     queue_, interrupts_, bed_.kernel().device(),
                                                     std::move(*FuseBuffers::make(bed_.volume())), true);
    worker_ = std::make_unique<FuseWorker>(bed_.session(), bed_.dispatcher(), std::move(source));
    file_ = make_file(bed_.filesystem(), "file");
    thread_ = std::thread([this] {
      of_worker_ = &of_thread;
      EXPECT_TRUE(worker_->serve(stopping_).ok());
    });
  }
  ~RequestCost() override {
    stopping_ = true;
    queue_.stop();
    thread_.join();
  }

  void write(int i) {
    const uint64_t unique = bed_.kernel().request_write(raw(file_), (i % kPages) * kPage, page_);
    EXPECT_EQ(bed_.take(unique).header.error, 0);
  }
  void read(int i) {
    const uint64_t unique = bed_.kernel().request_read(raw(file_), (i % kPages) * kPage, kPage);
    EXPECT_EQ(bed_.take(unique).payload.size(), kPage);
  }
  void fsync() {
    const uint64_t unique = bed_.kernel().request_with(FUSE_FSYNC, raw(file_), fuse_fsync_in{});
    EXPECT_EQ(bed_.take(unique).header.error, 0);
  }
  template <typename Ask>
  Costs cost_of(Ask ask) {
    for (int i = 0; i < kRequests; ++i) ask(i);
    const Cost worker = so_far(*of_worker_.load()), own = so_far(of_thread), all = so_far(of_all);
    for (int i = 0; i < kRequests; ++i) ask(i);
    const Cost by_worker = so_far(*of_worker_.load()) - worker;
    const Cost by_others = so_far(of_all) - all - (so_far(of_thread) - own) - by_worker;
    return {each(by_worker), each(by_others)};
  }
  static void tell(const char* what, const Costs& costs) {
    for (const auto& [who, cost] : {std::pair{"serving thread", costs.worker}, std::pair{"others", costs.others}}) {
      std::printf("%s, %s: %.2f mutexes, %.2f shared locks, %.2f allocations\n", what, who, cost.mutexes, cost.shared,
                  cost.allocations);
    }
  }

 private:
  static Cost so_far(const Counts& counts) {
    return {static_cast<double>(counts.mutexes), static_cast<double>(counts.shared),
            static_cast<double>(counts.allocations)};
  }
  static Cost each(const Cost& cost) {
    return {cost.mutexes / kRequests, cost.shared / kRequests, cost.allocations / kRequests};
  }

  const std::vector<std::byte> page_ = std::vector<std::byte>(kPage, std::byte{1});
  testing::TcpTestBrick brick_;
  FuseBed bed_;
  FuseDeviceQueue queue_;
  std::unique_ptr<FuseWorker> worker_;
  FuseInterrupts interrupts_{bed_.volume(), nullptr};
  Ino file_;
  std::atomic<bool> stopping_{false};
  std::atomic<const Counts*> of_worker_{nullptr};
  std::thread thread_;
};

TEST_F(RequestCost, CountsWhatThereIs) {
  const uint64_t mutexes = of_thread.mutexes, shared = of_thread.shared, allocations = of_thread.allocations;
  Mutex mutex;
  { const MutexLock lock(mutex); }
  SharedMutex shared_mutex;
  { const SharedLock lock(shared_mutex); }
  { const ExclusiveLock lock(shared_mutex); }
  void* volatile memory = ::operator new(1);
  ::operator delete(memory);
  EXPECT_EQ(of_thread.mutexes - mutexes, 1u);
  EXPECT_EQ(of_thread.shared - shared, 2u);
  EXPECT_EQ(of_thread.allocations - allocations, 1u);
}

// At most ten mutexes and two allocations. Of locks that are shared the bound is what it is; a tenth is for what a
// timer does beside.
TEST_F(RequestCost, OfAWriteOverBytesThatAreThere) {
  const Costs costs = cost_of([this](int i) { write(i); });
  tell("write of 4 KiB", costs);
  EXPECT_LE(costs.worker.mutexes, 10.1);
  EXPECT_LE(costs.worker.shared, 7.1);
  EXPECT_LE(costs.worker.allocations, 2);
}

TEST_F(RequestCost, OfARead) {
  for (int i = 0; i < kPages; ++i) write(i);
  const Costs costs = cost_of([this](int i) { read(i); });
  tell("read of 4 KiB", costs);
  EXPECT_LE(costs.worker.mutexes, 10.1);
  EXPECT_LE(costs.worker.shared, 3.1);
  EXPECT_LE(costs.worker.allocations, 2);
}

// Where all is written already, and nothing is behind that: no other thread is asked, none is woken to receive.
TEST_F(RequestCost, OfAnFsyncOnAVolatileBrick) {
  write(0);
  const Costs costs = cost_of([this](int) { fsync(); });
  tell("fsync", costs);
  EXPECT_LE(costs.worker.mutexes, 3.1);
  EXPECT_LE(costs.others.mutexes, 0.1);
}

}  // namespace
}  // namespace brickfs
