// SPDX-License-Identifier: Apache-2.0
// How a mount starts: the volume, its file system, the mount, and all that serves it.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "fs/daemon/daemon.h"
#include "fs/daemon/own_scope.h"
#include "fs/daemon/serving.h"
#include "fs/fuse/cache/writeback_cache.h"
#include "fs/mount/mount_program.h"
#include "fs/mount/mountpoint.h"
#include "fs/shm_queue/memory.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kKernelBegins{5'000};
constexpr milliseconds kLookAtBeginning{1};

}  // namespace

Status Serving::start() {
  if (command_.shm_queues && geteuid() != 0) {
    *why_ = "option ring=on: only root's mounts have rings";
    return Error(EPERM, "queues in shared memory");
  }
  look_at_request_limit();
  TRY(look_at_sharing());
  choose_writeback();
  metrics_ = TRY(serve_metrics(
      command_, [this] { return shown_.load(); }, why_));
  volume_ = TRY(ServedVolume::open(command_, events_.waiting, why_));
  defer_signals();
  if (const Status mounted = mount_it(); !mounted.ok()) {
    if (loop_) end_requests();
    mount_.reset();
    forget_in_utab(command_.listed_source(), command_.mountpoint);
    (void)volume_->unmount();
    return mounted;
  }
  ending_ = std::make_unique<Ending>(volume_->files(), command_.linger);
  std::function<void(MountState&)> tell_sharing;
  if (command_.shared) tell_sharing = [this](MountState& state) { volume_->tell_sharing(state); };
  monitor_ = std::make_unique<MountMonitor>(volume_->files(), mount_->session().shared_operations(), shm_queues_.get(),
                                            fixed_state(), mount_->device_number(), std::move(tell_sharing));
  shown_ = monitor_.get();
  start_sharing();
  listen_to_umount();
  mount_->raise_read_ahead();
  add_to_utab(command_.listed_source(), command_.mountpoint, options_to_show(common_options()));
  leave_callers_unit();
  return {};
}

Status Serving::mount_it() {
  TRY(choose_requests_way());
  TRY(clear_dead_mounts(command_.mountpoint, why_));
  register_in_utab(command_.listed_source(), command_.mountpoint, command_.of_user_space);
  mount_ = TRY(FuseMount::attach(volume_->files(), command_, sharing(), why_));
  mount_->session().negotiation().want_request_timeout(limit_.ask_seconds);
  why_->clear();
  auto loop = FuseLoop::start(*mount_, command_.io_uring, why_);
  if (!loop.ok()) {
    if (why_->empty())
      *why_ = fmt::format("cannot serve {}: {}: {}", command_.mountpoint, loop.error().what(),
                          strerror(loop.error().code()));
    return loop.error();
  }
  loop_ = std::move(*loop);
  put_uring_switch_back();
  return start_shm_queues();
}

// Before anything is mounted: mounting makes the first request, which says what the kernel offers.
Status Serving::choose_requests_way() {
  if (command_.shared && command_.io_uring == IoUring::kAuto) {
    command_.io_uring = IoUring::kOff;
    uring_obstacle_ = "whoever waits for a lock of a shared volume would keep a place for requests";
  }
  if (command_.io_uring == IoUring::kOff) return {};
  const auto obstacle = uring_switch_.obstacle(command_.io_uring == IoUring::kOn);
  if (!obstacle) return {};
  if (command_.io_uring == IoUring::kOn) {
    *why_ = fmt::format("option io_uring=on: {}", *obstacle);
    return Error(ENOTSUP, "io_uring");
  }
  command_.io_uring = IoUring::kOff;
  uring_obstacle_ = *obstacle;
  return {};
}

// Once the kernel has said that it will use io_uring, it does so for as long as the mount lives.
void Serving::put_uring_switch_back() {
  const auto until = steady_clock::now() + kKernelBegins;
  while (!loop_->has_begun() && !mount_->is_severed() && steady_clock::now() < until)
    std::this_thread::sleep_for(kLookAtBeginning);
  if (uring_switch_.turned_on())
    log::info("FUSE over io_uring was switched on for this mount, and off again: other mounts are as they were");
  uring_switch_.done();
}

// A hard mount is a promise that such a kernel does not let us keep.
void Serving::look_at_request_limit() {
  limit_ = read_request_limit();
  const auto most = limit_.longest_outage();
  if (!most || (command_.soft && command_.soft_timeout < *most)) return;
  log::warn(
      "this kernel ends a mount of which a request takes more than {} s (sysctl fs.fuse.max_request_timeout): so "
      "operations fail with EIO when the brick has been away for {:.0f} s",
      limit_.limit->count(), std::chrono::duration<double>(*most).count());
}

// A lock may be waited for as long as another has it: the kernel is not to end the mount for that, nor are requests to
// have a place each, as over io_uring, that those who wait would keep.
Status Serving::look_at_sharing() {
  if (!command_.shared) return {};
  if (command_.writeback == Writeback::kOn) {
    *why_ = "option writeback=on: not with shared: what is written on one machine is to be seen on the others";
    return Error(EINVAL, "mount options");
  }
  if (command_.io_uring == IoUring::kOn) {
    *why_ = "option io_uring=on: not with shared: whoever waits for a lock would keep a place for requests";
    return Error(EINVAL, "mount options");
  }
  if (limit_.limit) {
    *why_ = fmt::format(
        "option shared: this kernel ends a mount of which a request takes more than {} s (sysctl "
        "fs.fuse.max_request_timeout), and a lock may be waited for longer",
        limit_.limit->count());
    return Error(ENOTSUP, "mount options");
  }
  return {};
}

Sharing Serving::sharing() const {
  if (!command_.shared) return Sharing::kNone;
  return volume_->is_member() ? Sharing::kMember : Sharing::kCoordinator;
}

// Members are let in when their answers can be served.
void Serving::start_sharing() {
  own_kernel_ = std::make_unique<MountKernel>(mount_->session());
  volume_->start_sharing(own_kernel_.get());
}

// Where operations fail while the brick is away, who writes is to be told by write(2) itself: there is no way back to
// what was lost.
void Serving::choose_writeback() {
  if (command_.writeback != Writeback::kAuto) return;
  if (command_.shared) {
    writeback_obstacle_ = "other machines have the volume, too";
  } else if (command_.read_only) {
    writeback_obstacle_ = "a read-only mount";
  } else if (command_.soft || limit_.longest_outage()) {
    writeback_obstacle_ = "its operations fail while the brick is away";
  } else if (!tells_dirty_limit()) {
    writeback_obstacle_ = "this kernel does not say how much it has not written back (Linux 6.2 does)";
  }
  command_.writeback = writeback_obstacle_.empty() ? Writeback::kOn : Writeback::kOff;
  log::info("writeback=auto: {}", writeback_obstacle_.empty() ? "on" : "off: " + writeback_obstacle_);
}

MountState Serving::fixed_state() const {
  MountState state = brickfs::fixed_state(command_, access().durability());
  state.io_uring = mount_->session().negotiation().has_uring();
  state.io_uring_obstacle = uring_obstacle_;
  state.writeback = command_.writeback == Writeback::kOn;
  state.writeback_obstacle = writeback_obstacle_;
  if (command_.shared) state.sharing = volume_->is_member() ? "member" : "coordinator";
  state.has_rings = command_.shm_queues;
  state.most_rings = command_.shm_queues ? shm_queue::kMostQueues : 0;
  state.request_limit_seconds = limit_.limit.value_or(std::chrono::seconds(0)).count();
  return state;
}

// In the foreground this is the caller's to end.
void Serving::leave_callers_unit() {
  if (command_.foreground) return;
  const auto& options = command_.of_user_space;
  const bool over_network = std::find(options.begin(), options.end(), kOverNetwork) != options.end();
  const Status moved = move_to_own_scope(command_.mountpoint, over_network);
  if (moved.ok() || moved.code() == ENOENT || moved.code() == EPERM || moved.code() == EBUSY) return;
  log::warn("systemd ends {} with the login or the service that has mounted it: {}", command_.mountpoint,
            describe(moved.error()));
}

void Serving::listen_to_umount() {
  if (geteuid() != 0) return;  // umount(8) runs a helper for root only
  auto listener = MountListener::start(volume_->files(), *ending_, *monitor_, command_.linger, common_options(),
                                       mount_->device_number());
  if (listener.ok()) {
    listener_ = std::move(*listener);
  } else {
    log::warn("umount will not wait for the brick: {}", describe(listener.error()));
  }
}

Status Serving::start_shm_queues() {
  if (!command_.shm_queues) return {};
  auto queues = ShmQueues::start(mount_->session(), mount_->device_number());
  if (!queues.ok()) {
    *why_ = fmt::format("option ring=on: {}", describe(queues.error()));
    return queues.error();
  }
  shm_queues_ = std::move(*queues);
  return {};
}

std::string Serving::common_options() const {
  MountCommand command = command_;
  command.read_only = volume_->files().read_only();
  const bool durable = access().durability() == Durability::kDurable;
  return describe_common_options(command, durable, mount_->session().negotiation().has_uring());
}

}  // namespace brickfs
