// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/loop.h"

#include <fmt/core.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fs/fuse/extra.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kWakeAgain{5};
constexpr size_t kDeviceThreads = 12;
constexpr size_t kExtraAtOnce = 8;
constexpr size_t kExtraThreads = 64;  // as many requests as the kernel makes in the background (fs/fuse/operations.cc)
// Ring entries, with a buffer and a thread each, shared out among the CPUs' queues.
constexpr size_t kRingEntries = 48;
constexpr size_t kMostPerQueue = 12;
constexpr size_t kLeastPerQueue = 2;  // a request that waits does not hold up all others of its CPU

// 0: it is not of the mount's pid namespace.
uint32_t thread_that_asks(std::span<const std::byte> message) {
  fuse_in_header header{};
  std::memcpy(&header, message.data(), std::min(message.size(), sizeof(header)));
  return header.pid;
}

void install_wake_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(FuseDeviceQueue::kWakeSignal, &action, nullptr);
}

}  // namespace

Result<std::unique_ptr<FuseLoop>> FuseLoop::start(FuseMount& mount, VolumeClient& volume, IoUring io_uring, std::string* why) {
  UniqueFd ended(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended) return errno_error("eventfd");
  install_wake_signal();
  // Where the brick is in this process, a request is answered before its caller's processor has gone to sleep: there it is served best.
  const bool looks = !volume.is_embedded() && io_uring == IoUring::kOff && std::thread::hardware_concurrency() > 1;
  std::unique_ptr<FuseLoop> loop(new FuseLoop(mount, volume, looks, std::move(ended)));
  const auto watch = [&] { loop->interrupts_ = std::make_unique<FuseInterrupts>(volume, [raw = loop.get()] { raw->read_on(); }); };
  watch();
  if (io_uring != IoUring::kOff) {
    const Status made = loop->make_ring_workers(volume);
    if (!made.ok()) {
      loop->interrupts_.reset();
      loop->workers_.clear();
      watch();
    }
    if (!made.ok() && io_uring == IoUring::kOn) {
      *why = fmt::format("option io_uring=on: this process may not use io_uring: {}", strerror(made.code()));
      return Error(ENOTSUP, "io_uring");
    }
  }
  for (size_t i = 0; i < kDeviceThreads; ++i) {
    loop->workers_.push_back(std::make_unique<Worker>());
    loop->workers_.back()->device =
        TRY(FuseDeviceWorker::make(mount.filesystem(), loop->device_queue_, *loop->interrupts_, mount.device(), loop->processing()));
  }
  for (const auto& worker : loop->workers_) {
    if (worker->device) loop->start_thread(*worker);
  }
  return loop;
}

// Before the kernel asks: once it has been told to use them, it waits for them.
Status FuseLoop::make_ring_workers(VolumeClient& volume) {
  const size_t queues = FuseRing::queues();
  const size_t for_each = std::clamp(kRingEntries / queues, kLeastPerQueue, kMostPerQueue);
  queues_ = std::vector<FuseRingQueue>(queues);
  serving_ = std::vector<std::atomic<unsigned>>(queues);
  for (size_t i = 0; i < queues * for_each; ++i) {
    const size_t cpu = i % queues;
    auto entry = TRY(FuseRingEntry::make(volume, cpu, queues_[cpu]));
    interrupts_->watch(*entry);
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->ring = std::make_unique<FuseRingWorker>(
        mount_.filesystem(), queues_[cpu], TRY(FuseRing::make(mount_.device(), for_each)), std::move(entry),
        FuseCpuChoice(cpu, serving_[cpu]), processing());
  }
  mount_.want_rings();
  return {};
}

void FuseLoop::start_rings() {
  MutexLock lock(threads_mutex_);
  log::info("requests come over io_uring");
  for (const auto& worker : workers_) {
    if (worker->ring && !stopping_) start_thread(*worker);
  }
}

void FuseLoop::start_thread(Worker& worker) {
  ++running_;
  worker.runs = true;
  worker.thread = std::thread([this, &worker] { serve(worker); });
}

FuseLoop::~FuseLoop() { stop(); }

bool FuseLoop::busy() const {
  const auto is_busy = [](const auto& worker) { return worker->busy(); };
  MutexLock lock(threads_mutex_);
  return std::ranges::any_of(workers_, is_busy) || std::ranges::any_of(extra_workers_, is_busy);
}

bool FuseLoop::is_brick_there() const { return volume_.link_state().kind == LinkState::Kind::kConnected; }

// All threads may wait for the brick. Then others take requests, at least all of those that nothing else than an answer ends, whatever
// signal comes: the asynchronous ones.
void FuseLoop::read_on() {
  const bool all_wait = std::ranges::all_of(workers_, [](const auto& worker) { return !worker->device || worker->busy(); });
  pollfd device{mount_.device(), POLLIN, 0};
  if (!all_wait || ::poll(&device, 1, 0) != 1 || (device.revents & POLLIN) == 0 || is_brick_there()) return;
  MutexLock lock(threads_mutex_);
  auto idle = std::ranges::count_if(extra_workers_, [](const auto& worker) { return worker->runs && !worker->busy(); });
  Status started;
  for (; static_cast<size_t>(idle) < kExtraAtOnce && started.ok(); ++idle) started = start_extra_thread();
  if (!started.ok()) log::debug("no more threads: {}", started.error().what());
}

Status FuseLoop::start_extra_thread() {
  if (stopping_) return Error(ECANCELED, "threads for requests");
  auto at = std::ranges::find_if(extra_workers_, [](const auto& worker) { return !worker->runs; });
  if (at != extra_workers_.end()) {
    (*at)->thread.join();
    start_thread(**at);
    return {};
  }
  if (extra_workers_.size() == kExtraThreads) return Error(EAGAIN, "threads for requests");
  auto worker = std::make_unique<Worker>();
  worker->extra = true;
  worker->device = TRY(FuseDeviceWorker::make(mount_.filesystem(), device_queue_, *interrupts_, mount_.device(), processing()));
  extra_workers_.push_back(std::move(worker));
  start_thread(*extra_workers_.back());
  return {};
}

void FuseLoop::serve(Worker& worker) {
  if (worker.extra) {
    worker.device->serve(stopping_, [this] { return is_brick_there(); });
    worker.runs = false;
    --running_;
    return;
  }
  if (worker.device) {
    worker.device->serve(stopping_);
  } else {
    const Status served = worker.ring->serve(stopping_);
    if (!served.ok() && !stopping_ && !mount_.is_severed()) {
      log::warn("the kernel refuses FUSE over io_uring ({}): going on without it", strerror(served.code()));
    }
  }
  --running_;
  const uint64_t one = 1;
  (void)!::write(ended_.get(), &one, sizeof(one));
}

FuseProcess FuseLoop::processing() {
  return [this](std::span<std::byte> message) { process(message); };
}

void FuseLoop::process(std::span<std::byte> message) {
  if (const uint64_t unique = interrupted_request(message)) {
    if (!interrupts_->ask(unique)) send_again_later(mount_, message);
    return;
  }
  const Filesystem::Asker asker(thread_that_asks(message), FusePlace::current()->waiter().interruption());
  mount_.see_request(message);
  if (!refuse_if_lost(mount_, message) && !serve_extra_request(mount_, message)) {
    fuse_buf request{};
    request.size = message.size();
    request.mem = message.data();
    fuse_session_process_buf(mount_.session(), &request);
  }
  if (!begun_) begun_ = mount_.is_initialised();
  if (!rings_started_ && mount_.has_rings() && !rings_started_.exchange(true)) start_rings();
}

// A signal that comes just before a thread begins to wait is lost, so it is sent until all have gone.
void FuseLoop::stop() {
  mount_.pages().stop();  // while reads are served, for which it may wait
  stopping_ = true;
  device_queue_.stop();
  for (FuseRingQueue& queue : queues_) queue.stop();
  while (running_ > 0) {
    {
      MutexLock lock(threads_mutex_);
      wake_threads();
    }
    std::this_thread::sleep_for(kWakeAgain);
  }
  MutexLock lock(threads_mutex_);
  for (auto* const workers : {&workers_, &extra_workers_}) {
    for (const auto& worker : *workers) {
      if (worker->thread.joinable()) worker->thread.join();
    }
  }
}

void FuseLoop::wake_threads() {
  for (auto* const workers : {&workers_, &extra_workers_}) {
    for (const auto& worker : *workers) {
      if (!worker->busy() && worker->thread.joinable()) pthread_kill(worker->thread.native_handle(), FuseDeviceQueue::kWakeSignal);
    }
  }
}

}  // namespace brickfs
