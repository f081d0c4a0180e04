// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse_loop.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fs/fuse_reply.h"

namespace brickfs {
namespace {

constexpr int kWakeSignal = SIGUSR1;  // makes a waiting read() return
constexpr std::chrono::milliseconds kWakeAgain{5};

void install_wake_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(kWakeSignal, &action, nullptr);
}

}  // namespace

Result<std::unique_ptr<FuseLoop>> FuseLoop::start(FuseMount& mount, VolumeClient& volume) {
  UniqueFd ended(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended) return errno_error("eventfd");
  install_wake_signal();
  std::unique_ptr<FuseLoop> loop(new FuseLoop(mount, std::move(ended)));
  for (size_t i = 0; i < kThreads; ++i) {
    loop->workers_.push_back(std::make_unique<Worker>());
    loop->workers_.back()->buffers = TRY(FuseBuffers::make(volume));
  }
  loop->running_ = kThreads;
  for (const auto& worker : loop->workers_) {
    worker->thread = std::thread([loop = loop.get(), worker = worker.get()] { loop->serve(*worker); });
  }
  return loop;
}

FuseLoop::~FuseLoop() { stop(); }

bool FuseLoop::busy() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->busy.load(); });
}

void FuseLoop::serve(Worker& worker) {
  FuseBuffers::set_current(worker.buffers.get());
  while (!stopping_ && serve_one(worker)) {
  }
  FuseBuffers::set_current(nullptr);
  --running_;
  const uint64_t one = 1;
  (void)!::write(ended_.get(), &one, sizeof(one));
}

bool FuseLoop::serve_one(Worker& worker) {
  const std::span<std::byte> room = worker.buffers->request();
  const ssize_t received = ::read(mount_.device(), room.data(), room.size());
  if (received < 0) {
    if (errno == ENODEV) return false;
    // ENOENT: the request was interrupted while it was handed over.
    if (errno == ENOENT || errno == EINTR || errno == EAGAIN) return true;
    spdlog::error("cannot read from /dev/fuse: {}", strerror(errno));
    return false;
  }
  worker.busy = true;
  const auto message = room.first(static_cast<size_t>(received));
  mount_.see_request(message);
  if (!serve_extra_request(mount_, message)) {
    fuse_buf request{};
    request.size = message.size();
    request.mem = message.data();
    fuse_session_process_buf(mount_.session(), &request);
  }
  worker.busy = false;
  return true;
}

// A signal that comes just before a thread begins to wait is lost, so it is sent until all have gone.
void FuseLoop::stop() {
  stopping_ = true;
  while (running_ > 0) {
    for (const auto& worker : workers_) {
      if (!worker->busy) pthread_kill(worker->thread.native_handle(), kWakeSignal);
    }
    std::this_thread::sleep_for(kWakeAgain);
  }
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

}  // namespace brickfs
