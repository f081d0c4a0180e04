// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serving.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "fs/fuse/loop.h"
#include "fs/fuse/mount.h"
#include "fs/fuse/mount_source.h"
#include "fs/fuse/ring.h"
#include "fs/fuse/signals.h"
#include "fs/operations/filesystem.h"
#include "transport/base/log.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAtDevice{1'000};  // all threads may be stuck when the kernel ends the connection
constexpr milliseconds kLookAtLink{100};
constexpr milliseconds kWaitForBrick{3'000};  // once told to end, with the brick away
constexpr milliseconds kWaitForEnd{25'000};   // once told to end, in any case

bool is_readable(int a, int b, milliseconds timeout) {
  std::array<pollfd, 2> fds = {pollfd{a, POLLIN, 0}, pollfd{b, POLLIN, 0}};
  return poll(fds.data(), fds.size(), static_cast<int>(timeout.count())) > 0;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

// Told to end, one way or another: gives the brick a bounded time, then cuts everything that waits for it off.
class HurriedEnd {
 public:
  explicit HurriedEnd(VolumeClient& volume) : volume_(volume) {}

  void begin() {
    if (!began_) began_ = steady_clock::now();
  }
  void check() {
    if (!began_ || interrupted_) return;
    const auto waited = steady_clock::now() - *began_;
    const bool away = volume_.link_state().kind == LinkState::Kind::kWaiting;
    if (waited < (away ? kWaitForBrick : kWaitForEnd)) return;
    log::warn("the brick does not answer: going without it");
    interrupted_ = true;
    volume_.interrupt();
  }
  bool interrupted() const { return interrupted_; }

 private:
  VolumeClient& volume_;
  std::optional<steady_clock::time_point> began_;
  bool interrupted_ = false;
};

class Serving {
 public:
  Serving(MountCommand command, std::string* why) : command_(std::move(command)), why_(why) {}

  Status start();
  void wait_for_end();
  Status finish();

 private:
  Status choose_requests_way();
  Status mount_filesystem();
  void end_requests();
  void watch_until(int done);

  MountCommand command_;
  std::string* const why_;
  std::shared_ptr<std::atomic<Filesystem*>> commit_target_ = std::make_shared<std::atomic<Filesystem*>>(nullptr);
  // Destroyed in reverse order.
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<FuseMount> mount_;
  std::unique_ptr<FuseLoop> loop_;
  bool asked_to_end_ = false;  // by a signal
  std::unique_ptr<HurriedEnd> hurry_;
};

Status Serving::start() {
  TRY(choose_requests_way());
  TRY(mount_filesystem());
  defer_signals();
  auto mount = FuseMount::attach(*filesystem_, command_, why_);
  if (!mount.ok()) {
    (void)filesystem_->unmount();
    return mount.error();
  }
  mount_ = std::move(*mount);
  why_->clear();
  auto loop = FuseLoop::start(*mount_, filesystem_->volume(), command_.io_uring, why_);
  if (!loop.ok()) {
    if (why_->empty()) *why_ = fmt::format("cannot serve {}: {}: {}", command_.mountpoint, loop.error().what(), strerror(loop.error().code()));
    mount_.reset();
    (void)filesystem_->unmount();
    return loop.error();
  }
  loop_ = std::move(*loop);
  hurry_ = std::make_unique<HurriedEnd>(filesystem_->volume());
  mount_->raise_read_ahead();
  mount_->register_umount_helper();
  return {};
}

// Before anything is mounted: mounting makes the first request, which says what the kernel offers.
Status Serving::choose_requests_way() {
  if (command_.io_uring == IoUring::kOff) return {};
  const auto obstacle = FuseRing::obstacle(command_.io_uring == IoUring::kOn);
  if (!obstacle) return {};
  if (command_.io_uring == IoUring::kOn) {
    *why_ = fmt::format("option io_uring=on: {}", *obstacle);
    return Error(ENOTSUP, "io_uring");
  }
  command_.io_uring = IoUring::kOff;
  return {};
}

Status Serving::mount_filesystem() {
  const auto commit_wanted = [target = commit_target_] {
    if (Filesystem* const filesystem = *target) filesystem->want_commit();
  };
  auto volume = TRY(open_volume(command_, commit_wanted, why_));
  const MountOptions options{
      .read_only = command_.read_only, .writeback_cache = command_.writeback_cache, .no_atime = command_.no_atime};
  std::string reason;
  auto filesystem = Filesystem::mount(std::move(volume), options, &reason);
  if (!filesystem.ok()) {
    if (reason.empty()) reason = fmt::format("{}: {}", filesystem.error().what(), strerror(filesystem.error().code()));
    *why_ = fmt::format("{}: {}", command_.source, reason);
    return filesystem.error();
  }
  filesystem_ = std::move(*filesystem);
  *commit_target_ = filesystem_.get();
  return {};
}

void Serving::wait_for_end() {
  while (!is_readable(loop_->ended(), signals_fd(), kLookAtDevice)) {
    if (mount_->is_severed()) break;
  }
  asked_to_end_ = is_readable(signals_fd());
  take_signals();
  // Requests that stay under way without a kernel to answer to: the unmount was forced (umount -f).
  if (!asked_to_end_ && loop_->busy()) std::this_thread::sleep_for(kLookAtLink);
  if (asked_to_end_ || loop_->busy()) hurry_->begin();
}

Status Serving::finish() {
  const UniqueFd done(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Status status;
  std::thread closer([&] {
    end_requests();
    *commit_target_ = nullptr;
    status = filesystem_->unmount();
    const uint64_t one = 1;
    (void)!write(done.get(), &one, sizeof(one));
  });
  watch_until(done.get());
  closer.join();
  if (status.ok()) return status;
  *why_ = hurry_->interrupted()
              ? fmt::format("{} was away: what was written since the last sync may be lost", command_.source)
              : fmt::format("unmounting {}: {}: {}; what was written since the last sync may be lost",
                            command_.mountpoint, status.error().what(), strerror(status.error().code()));
  return status;
}

void Serving::end_requests() {
  if (asked_to_end_) mount_->detach();
  loop_->stop();
  loop_.reset();
  mount_.reset();
}

void Serving::watch_until(int done) {
  while (!is_readable(done)) {
    if (is_readable(done, signals_fd(), kLookAtLink) && is_readable(signals_fd())) {
      take_signals();
      hurry_->begin();
    }
    hurry_->check();
  }
}

}  // namespace

Status serve_mount(MountCommand command, const std::function<void()>& ready, std::string* why) {
  Serving serving(std::move(command), why);
  TRY(serving.start());
  ready();
  serving.wait_for_end();
  return serving.finish();
}

}  // namespace brickfs
