// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/loop.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "fs/fuse/serve/device_source.h"
#include "fs/fuse/serve/uring.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr size_t kDeviceWorkers = 12;
constexpr size_t kExtraAtOnce = 8;
// Of either way: as many requests as the kernel makes in the background (fs/fuse/protocol/negotiation.cc).
constexpr size_t kExtraWorkers = 64;
constexpr std::chrono::milliseconds kSaidSilent{1'500};  // the brick is said to be (transport/volume/volume_link.cc)
constexpr std::chrono::milliseconds kStuck{1'000};       // a batch of small requests
// Entries of io_uring, with a buffer and a worker each, shared out among the CPUs' queues.
constexpr size_t kUringEntries = 48;
constexpr size_t kMostPerQueue = 12;
constexpr size_t kLeastPerQueue = 2;  // a request that waits does not hold up all others of its CPU

void raise_event(int event) {
  const uint64_t one = 1;
  (void)!::write(event, &one, sizeof(one));
}

}  // namespace

FuseLoop::FuseLoop(FuseMount& mount, bool polls, UniqueFd ended, UniqueFd stopped)
    : mount_(mount),
      session_(mount.session()),
      volume_(session_.files().volume()),
      polls_(polls),
      ended_(std::move(ended)),
      stopped_(std::move(stopped)),
      device_queue_(mount.device()) {
  ::fcntl(mount.device(), F_SETFL, ::fcntl(mount.device(), F_GETFL) | O_NONBLOCK);
  interrupts_ = std::make_unique<FuseInterrupts>(volume_, [this] { read_on(); });
  dispatcher_ = std::make_unique<FuseDispatcher>(session_, *interrupts_, [this] { begin(); });
}

Result<std::unique_ptr<FuseLoop>> FuseLoop::start(FuseMount& mount, IoUring io_uring, std::string* why) {
  UniqueFd ended(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd stopped(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended || !stopped) return errno_error("eventfd");
  const bool polls = io_uring == IoUring::kOff && std::thread::hardware_concurrency() > 1;
  std::unique_ptr<FuseLoop> loop(new FuseLoop(mount, polls, std::move(ended), std::move(stopped)));
  if (io_uring != IoUring::kOff) {
    const Status made = loop->make_uring_workers();
    if (!made.ok() && io_uring == IoUring::kOn) {
      *why = fmt::format("option io_uring=on: this process may not use io_uring: {}", strerror(made.code()));
      return Error(ENOTSUP, "io_uring");
    }
  }
  for (size_t i = 0; i < kDeviceWorkers; ++i) loop->workers_.push_back(TRY(loop->make_device_worker()));
  for (const auto& worker : loop->workers_) {
    if (worker->uring == nullptr) TRY(loop->start_thread(*worker));
  }
  return loop;
}

// Before the kernel asks: once it has been told to use them, it waits for them.
Status FuseLoop::make_uring_workers() {
  const size_t queues = FuseUring::queues();
  const size_t for_each = std::clamp(kUringEntries / queues, kLeastPerQueue, kMostPerQueue);
  queues_ = std::vector<FuseUringQueue>(queues);
  serving_ = std::vector<std::atomic<unsigned>>(queues);
  Workers made;
  for (size_t i = 0; i < queues * for_each; ++i) made.push_back(TRY(make_uring_worker(i % queues)));
  for (const auto& worker : made) interrupts_->watch(worker->uring->entry());
  workers_ = std::move(made);
  session_.negotiation().want_uring();
  return {};
}

// One worker may come to have all entries of its queue.
Result<std::unique_ptr<FuseLoop::Worker>> FuseLoop::make_uring_worker(size_t cpu) {
  auto uring = TRY(FuseUring::make(mount_.device(), stopped_.get(), kMostPerQueue + kExtraWorkers));
  auto entry = TRY(FuseUringRequest::make(volume_, session_.cache(), session_.operations(), cpu, queues_[cpu]));
  auto source = std::make_unique<FuseUringSource>(queues_[cpu], std::move(uring), std::move(entry),
                                                  FuseCpuChoice(cpu, serving_[cpu]));
  auto worker = std::make_unique<Worker>();
  worker->cpu = cpu;
  worker->uring = source.get();
  worker->worker = std::make_unique<FuseWorker>(session_, *dispatcher_, std::move(source));
  return worker;
}

Result<std::unique_ptr<FuseLoop::Worker>> FuseLoop::make_device_worker() {
  auto buffers = TRY(FuseBuffers::make(volume_));
  auto worker = std::make_unique<Worker>();
  worker->worker = std::make_unique<FuseWorker>(
      session_, *dispatcher_,
      std::make_unique<FuseDeviceSource>(volume_, session_.cache(), session_.operations(), device_queue_, *interrupts_,
                                         mount_.device(), std::move(buffers), polls_));
  return worker;
}

void FuseLoop::begin() {
  begun_ = true;
  if (session_.negotiation().has_uring() && !uring_started_.exchange(true)) start_uring();
}

void FuseLoop::start_uring() {
  MutexLock lock(threads_mutex_);
  log::info("requests come over io_uring");
  for (const auto& worker : workers_) {
    if (worker->uring == nullptr || stopping_) continue;
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

bool FuseLoop::is_brick_there() const { return volume_.link_state().kind == LinkState::Kind::kConnected; }

// All workers may wait for the brick. Then others take requests, at least all of those that nothing else than an answer
// ends, whatever signal comes: the asynchronous ones.
void FuseLoop::read_on() {
  if (is_brick_there()) return;
  MutexLock lock(threads_mutex_);
  read_on_from_device();
  if (uring_started_) read_on_from_uring();
}

void FuseLoop::read_on_from_device() {
  const auto waits = [](const auto& worker) { return worker->uring != nullptr || worker->worker->busy(); };
  if (!std::ranges::all_of(workers_, waits) || !device_queue_.has_more()) return;
  const auto is_idle = [](const auto& worker) { return worker->runs && !worker->worker->busy(); };
  auto idle = std::ranges::count_if(extra_workers_, is_idle);
  Status started;
  for (; static_cast<size_t>(idle) < kExtraAtOnce && started.ok(); ++idle) started = start_extra_thread();
  if (!started.ok()) log::debug("no more threads: {}", started.error().what());
}

// What is in other entries of a worker that waits for a silent session's end comes out with that. What the kernel keeps
// for want of an entry gets more of them: then a signal to who waits for it is seen.
void FuseLoop::read_on_from_uring() {
  const auto hides = [](const auto& worker) { return worker->worker->hides_requests_for() >= kStuck; };
  if (std::ranges::any_of(workers_, hides) || std::ranges::any_of(extra_uring_, hides)) {
    volume_.give_up_silent(kSaidSilent);
  }
  for (size_t cpu = 0; cpu < queues_.size(); ++cpu) {
    if (has_entries_left(cpu)) continue;
    Status started;
    for (size_t i = 0; i < kExtraAtOnce && started.ok(); ++i) started = start_extra_uring(cpu);
    if (!started.ok()) log::debug("no more entries: {}", started.error().what());
  }
}

bool FuseLoop::has_entries_left(size_t cpu) const {
  const auto offers = [cpu](const auto& worker) {
    return worker->uring != nullptr && worker->cpu == cpu && worker->uring->offers();
  };
  return std::ranges::any_of(workers_, offers) || std::ranges::any_of(extra_uring_, offers);
}

Status FuseLoop::start_extra_uring(size_t cpu) {
  if (stopping_) return Error(ECANCELED, "entries of io_uring");
  if (extra_uring_.size() == kExtraWorkers) return Error(EAGAIN, "entries of io_uring");
  extra_uring_.push_back(TRY(make_uring_worker(cpu)));
  Worker& worker = *extra_uring_.back();
  interrupts_->watch(worker.uring->entry());
  if (mount_.is_mounted()) worker.uring->set_on_offered([path = mount_.mountpoint(), cpu] { kick_uring(path, cpu); });
  return start_thread(worker);
}

Status FuseLoop::start_extra_thread() {
  if (stopping_) return Error(ECANCELED, "threads for requests");
  auto at = std::ranges::find_if(extra_workers_, [](const auto& worker) { return !worker->runs; });
  if (at != extra_workers_.end()) {
    if ((*at)->thread.joinable()) (*at)->thread.join();
    return start_thread(**at);
  }
  if (extra_workers_.size() == kExtraWorkers) return Error(EAGAIN, "threads for requests");
  extra_workers_.push_back(TRY(make_device_worker()));
  extra_workers_.back()->extra = true;
  return start_thread(*extra_workers_.back());
}

void FuseLoop::serve(Worker& worker) {
  const auto goes = [this] { return is_brick_there(); };
  const Status served = worker.worker->serve(stopping_, worker.extra ? std::function<bool()>(goes) : nullptr);
  const bool is_refused = !served.ok() && !stopping_ && !mount_.is_severed();
  if (is_refused) log::warn("the kernel refuses FUSE over io_uring ({}): going on without it", strerror(served.code()));
  worker.runs = false;
  if (!is_refused && !worker.extra) raise_event(ended_.get());
  --running_;
  running_.notify_all();
}

void FuseLoop::stop() {
  session_.stop();  // while reads are served, for which it may wait
  stopping_ = true;
  device_queue_.stop();
  for (FuseUringQueue& queue : queues_) queue.stop();
  raise_event(stopped_.get());
  for (size_t running; (running = running_) > 0;) running_.wait(running);
  MutexLock lock(threads_mutex_);
  for (auto* const workers : {&workers_, &extra_workers_, &extra_uring_}) {
    for (const auto& worker : *workers) {
      if (worker->thread.joinable()) worker->thread.join();
    }
  }
}

}  // namespace brickfs
