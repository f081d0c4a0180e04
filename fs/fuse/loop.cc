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
#include <system_error>

#include "fs/fuse/extra.h"
#include "fs/fuse/ring_kick.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kWakeAgain{5};
constexpr size_t kDeviceThreads = 12;
constexpr size_t kExtraAtOnce = 8;
// Of either way: as many requests as the kernel makes in the background (fs/fuse/operations.cc).
constexpr size_t kExtraThreads = 64;
constexpr std::chrono::milliseconds kSaidSilent{1'500};  // the brick is said to be (transport/volume/volume_link.cc)
constexpr std::chrono::milliseconds kStuck{1'000};       // a batch of small requests
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

Result<std::unique_ptr<FuseLoop>> FuseLoop::start(FuseMount& mount, VolumeClient& volume, IoUring io_uring,
                                                  std::string* why) {
  UniqueFd ended(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended) return errno_error("eventfd");
  install_wake_signal();
  // Where the brick is in this process, a request is answered before its caller's processor has gone to sleep: there it
  // is served best.
  const bool looks = !volume.is_embedded() && io_uring == IoUring::kOff && std::thread::hardware_concurrency() > 1;
  std::unique_ptr<FuseLoop> loop(new FuseLoop(mount, volume, looks, std::move(ended)));
  const auto watch = [&] {
    loop->interrupts_ = std::make_unique<FuseInterrupts>(volume, [raw = loop.get()] { raw->read_on(); });
  };
  watch();
  if (io_uring != IoUring::kOff) {
    const Status made = loop->make_ring_workers();
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
    loop->workers_.back()->device = TRY(FuseDeviceWorker::make(mount.filesystem(), loop->device_queue_,
                                                               *loop->interrupts_, mount.device(), loop->processing()));
  }
  for (const auto& worker : loop->workers_) {
    if (worker->device) TRY(loop->start_thread(*worker));
  }
  return loop;
}

// Before the kernel asks: once it has been told to use them, it waits for them.
Status FuseLoop::make_ring_workers() {
  const size_t queues = FuseRing::queues();
  const size_t for_each = std::clamp(kRingEntries / queues, kLeastPerQueue, kMostPerQueue);
  queues_ = std::vector<FuseRingQueue>(queues);
  serving_ = std::vector<std::atomic<unsigned>>(queues);
  for (size_t i = 0; i < queues * for_each; ++i) workers_.push_back(TRY(make_ring_worker(i % queues)));
  mount_.want_rings();
  return {};
}

// One thread may come to have all entries of its queue.
Result<std::unique_ptr<FuseLoop::Worker>> FuseLoop::make_ring_worker(size_t cpu) {
  auto ring = TRY(FuseRing::make(mount_.device(), kMostPerQueue + kExtraThreads));
  auto entry = TRY(FuseRingEntry::make(volume_, cpu, queues_[cpu]));
  interrupts_->watch(*entry);
  auto worker = std::make_unique<Worker>();
  worker->cpu = cpu;
  worker->ring = std::make_unique<FuseRingWorker>(mount_.filesystem(), queues_[cpu], std::move(ring), std::move(entry),
                                                  FuseCpuChoice(cpu, serving_[cpu]), processing());
  return worker;
}

void FuseLoop::start_rings() {
  MutexLock lock(threads_mutex_);
  log::info("requests come over io_uring");
  for (const auto& worker : workers_) {
    if (!worker->ring || stopping_) continue;
    const Status started = start_thread(*worker);
    if (!started.ok()) log::error("cannot serve requests over io_uring: {}", strerror(started.code()));
  }
}

Status FuseLoop::start_thread(Worker& worker) {
  ++running_;
  worker.runs = true;
  try {
    worker.thread = std::thread([this, &worker] { serve(worker); });
  } catch (const std::system_error& error) {
    worker.runs = false;
    --running_;
    return Error(error.code().value(), "a thread for requests");
  }
  return {};
}

FuseLoop::~FuseLoop() { stop(); }

bool FuseLoop::busy() const {
  const auto is_busy = [](const auto& worker) { return worker->busy(); };
  MutexLock lock(threads_mutex_);
  return std::ranges::any_of(workers_, is_busy) || std::ranges::any_of(extra_workers_, is_busy) ||
         std::ranges::any_of(extra_rings_, is_busy);
}

bool FuseLoop::is_brick_there() const { return volume_.link_state().kind == LinkState::Kind::kConnected; }

// All threads may wait for the brick. Then others take requests, at least all of those that nothing else than an answer
// ends, whatever signal comes: the asynchronous ones.
void FuseLoop::read_on() {
  if (is_brick_there()) return;
  MutexLock lock(threads_mutex_);
  read_on_from_device();
  if (rings_started_) read_on_from_rings();
}

void FuseLoop::read_on_from_device() {
  const bool all_wait =
      std::ranges::all_of(workers_, [](const auto& worker) { return !worker->device || worker->busy(); });
  pollfd device{mount_.device(), POLLIN, 0};
  if (!all_wait || ::poll(&device, 1, 0) != 1 || (device.revents & POLLIN) == 0) return;
  auto idle = std::ranges::count_if(extra_workers_, [](const auto& worker) { return worker->runs && !worker->busy(); });
  Status started;
  for (; static_cast<size_t>(idle) < kExtraAtOnce && started.ok(); ++idle) started = start_extra_thread();
  if (!started.ok()) log::debug("no more threads: {}", started.error().what());
}

// What is in other entries of a thread that waits for a silent session's end comes out with that. What the kernel keeps
// for want of an entry gets more of them: then a signal to who waits for it is seen.
void FuseLoop::read_on_from_rings() {
  const auto hides = [](const auto& worker) { return worker->ring && worker->ring->hides_requests_for() >= kStuck; };
  if (std::ranges::any_of(workers_, hides) || std::ranges::any_of(extra_rings_, hides)) {
    volume_.give_up_silent(kSaidSilent);
  }
  for (size_t cpu = 0; cpu < queues_.size(); ++cpu) {
    if (has_entries_left(cpu)) continue;
    Status started;
    for (size_t i = 0; i < kExtraAtOnce && started.ok(); ++i) started = start_extra_ring(cpu);
    if (!started.ok()) log::debug("no more entries: {}", started.error().what());
  }
}

bool FuseLoop::has_entries_left(size_t cpu) const {
  const auto offers = [cpu](const auto& worker) {
    return worker->ring && worker->cpu == cpu && worker->ring->offers();
  };
  return std::ranges::any_of(workers_, offers) || std::ranges::any_of(extra_rings_, offers);
}

Status FuseLoop::start_extra_ring(size_t cpu) {
  if (stopping_) return Error(ECANCELED, "ring entries");
  if (extra_rings_.size() == kExtraThreads) return Error(EAGAIN, "ring entries");
  extra_rings_.push_back(TRY(make_ring_worker(cpu)));
  Worker& worker = *extra_rings_.back();
  if (mount_.is_mounted()) worker.ring->set_on_offered([path = mount_.mountpoint(), cpu] { kick_ring(path, cpu); });
  return start_thread(worker);
}

Status FuseLoop::start_extra_thread() {
  if (stopping_) return Error(ECANCELED, "threads for requests");
  auto at = std::ranges::find_if(extra_workers_, [](const auto& worker) { return !worker->runs; });
  if (at != extra_workers_.end()) {
    if ((*at)->thread.joinable()) (*at)->thread.join();
    return start_thread(**at);
  }
  if (extra_workers_.size() == kExtraThreads) return Error(EAGAIN, "threads for requests");
  auto worker = std::make_unique<Worker>();
  worker->extra = true;
  worker->device =
      TRY(FuseDeviceWorker::make(mount_.filesystem(), device_queue_, *interrupts_, mount_.device(), processing()));
  extra_workers_.push_back(std::move(worker));
  return start_thread(*extra_workers_.back());
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
      --running_;
      return;
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
  mount_.pages().stop();                                          // while reads are served, for which it may wait
  if (mount_.writeback() != nullptr) mount_.writeback()->stop();  // likewise
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
  for (auto* const workers : {&workers_, &extra_workers_, &extra_rings_}) {
    for (const auto& worker : *workers) {
      if (worker->thread.joinable()) worker->thread.join();
    }
  }
}

void FuseLoop::wake_threads() {
  for (auto* const workers : {&workers_, &extra_workers_, &extra_rings_}) {
    for (const auto& worker : *workers) {
      if (!worker->busy() && worker->thread.joinable())
        pthread_kill(worker->thread.native_handle(), FuseDeviceQueue::kWakeSignal);
    }
  }
}

}  // namespace brickfs
