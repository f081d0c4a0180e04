// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/serving.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>

#include "fs/daemon/mount_listener.h"
#include "fs/daemon/mount_metrics.h"
#include "fs/daemon/mount_monitor.h"
#include "fs/daemon/signals.h"
#include "fs/fuse/cache/dirty_limit.h"
#include "fs/fuse/protocol/request_limit.h"
#include "fs/fuse/serve/loop.h"
#include "fs/fuse/serve/mount.h"
#include "fs/fuse/serve/uring_switch.h"
#include "fs/mount/mount_source.h"
#include "fs/mount/status/last_seen.h"
#include "fs/mount/utab.h"
#include "fs/operations/ending.h"
#include "fs/operations/filesystem.h"
#include "fs/shm_queue/memory.h"
#include "fs/shm_queue/serve/shm_queues.h"
#include "transport/base/local_time.h"
#include "transport/base/log.h"
#include "transport/base/progress_bar.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAtDevice{1'000};  // all threads may be stuck when the kernel ends the connection
constexpr milliseconds kLookAtLink{100};
constexpr milliseconds kLookAtOutage{250};
constexpr milliseconds kHeard{200};  // of the volume's loss, by all that waits: a set hears of it within half of that
constexpr milliseconds kKernelBegins{5'000};
constexpr milliseconds kLookAtBeginning{1};

bool is_readable(int a, int b, milliseconds timeout) {
  std::array<pollfd, 2> fds = {pollfd{a, POLLIN, 0}, pollfd{b, POLLIN, 0}};
  return poll(fds.data(), fds.size(), static_cast<int>(timeout.count())) > 0;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

class Serving {
 public:
  Serving(MountCommand command, const MountEvents& events, std::string* why)
      : command_(std::move(command)), events_(events), why_(why) {}

  Status start();
  void wait_for_end();
  Status finish();

 private:
  Status choose_requests_way();
  void put_uring_switch_back();
  void look_at_request_limit();
  void choose_writeback();
  Status mount_filesystem();
  void look_at_last_seen() const;
  void keep_last_seen() const;
  Status listen_to_prometheus();
  MountState fixed_state() const;
  void listen_to_umount();
  Status start_shm_queues();
  std::string common_options() const;
  void look_at_link();
  void look_at_loss(LinkState::Kind link);
  void end_requests();
  void watch_until(int done);
  void let_go(LinkState::Kind link, std::string text);
  Status conclude(const LinkState& link_before, Status unmounted);

  MountCommand command_;
  const MountEvents& events_;
  std::string* const why_;
  std::shared_ptr<std::atomic<Filesystem*>> commit_target_ = std::make_shared<std::atomic<Filesystem*>>(nullptr);
  UringSwitch uring_switch_;
  // Destroyed in reverse order.
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<FuseMount> mount_;
  std::unique_ptr<FuseLoop> loop_;
  std::unique_ptr<ShmQueues> shm_queues_;
  std::unique_ptr<Ending> ending_;
  std::unique_ptr<MountMonitor> monitor_;
  std::unique_ptr<MountListener> listener_;
  std::atomic<const MountMonitor*> shown_ = nullptr;
  std::unique_ptr<MetricsServer> metrics_;
  bool asked_to_end_ = false;  // by a signal
  int drops_ = 0;              // of the kernel's caches, since the volume was lost
  RequestLimit limit_;
  std::string uring_obstacle_;      // to io_uring=auto
  std::string writeback_obstacle_;  // to writeback=auto
  std::optional<steady_clock::time_point> away_since_;
};

Status Serving::start() {
  if (command_.shm_queues && geteuid() != 0) {
    *why_ = "option ring=on: only root's mounts have rings";
    return Error(EPERM, "queues in shared memory");
  }
  look_at_request_limit();
  choose_writeback();
  TRY(listen_to_prometheus());
  TRY(mount_filesystem());
  defer_signals();
  if (const Status chosen = choose_requests_way(); !chosen.ok()) {
    (void)filesystem_->unmount();
    return chosen;
  }
  auto mount = FuseMount::attach(*filesystem_, command_, why_);
  if (!mount.ok()) {
    (void)filesystem_->unmount();
    return mount.error();
  }
  mount_ = std::move(*mount);
  mount_->session().negotiation().want_request_timeout(limit_.ask_seconds);
  why_->clear();
  auto loop = FuseLoop::start(*mount_, filesystem_->volume(), command_.io_uring, why_);
  if (!loop.ok()) {
    if (why_->empty())
      *why_ = fmt::format("cannot serve {}: {}: {}", command_.mountpoint, loop.error().what(),
                          strerror(loop.error().code()));
    mount_.reset();
    (void)filesystem_->unmount();
    return loop.error();
  }
  loop_ = std::move(*loop);
  put_uring_switch_back();
  if (const Status queues = start_shm_queues(); !queues.ok()) {
    end_requests();
    (void)filesystem_->unmount();
    return queues;
  }
  ending_ = std::make_unique<Ending>(*filesystem_, command_.linger);
  monitor_ = std::make_unique<MountMonitor>(*filesystem_, mount_->session().shared_operations(), shm_queues_.get(),
                                            fixed_state(), mount_->device_number());
  shown_ = monitor_.get();
  listen_to_umount();
  mount_->raise_read_ahead();
  register_in_utab(mount_->listed_source(), command_.mountpoint, command_.of_user_space, common_options());
  return {};
}

// Before anything is mounted: mounting makes the first request, which says what the kernel offers.
Status Serving::choose_requests_way() {
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

// Where operations fail while the brick is away, who writes is to be told by write(2) itself: there is no way back to
// what was lost.
void Serving::choose_writeback() {
  if (command_.writeback != Writeback::kAuto) return;
  if (command_.read_only) {
    writeback_obstacle_ = "a read-only mount";
  } else if (command_.soft || limit_.longest_outage()) {
    writeback_obstacle_ = "its operations fail while the brick is away";
  } else if (!tells_dirty_limit()) {
    writeback_obstacle_ = "this kernel does not say how much it has not written back (Linux 6.2 does)";
  }
  command_.writeback = writeback_obstacle_.empty() ? Writeback::kOn : Writeback::kOff;
  log::info("writeback=auto: {}", writeback_obstacle_.empty() ? "on" : "off: " + writeback_obstacle_);
}

Status Serving::mount_filesystem() {
  const auto commit_wanted = [target = commit_target_] {
    if (Filesystem* const filesystem = *target) filesystem->want_commit();
  };
  MountRetry retry(command_, events_.waiting);
  auto volume = TRY(open_volume(command_, commit_wanted, retry, why_));
  const MountOptions options{.read_only = command_.read_only,
                             .writeback_cache = command_.writeback == Writeback::kOn,
                             .no_atime = command_.no_atime,
                             .max_metadata_bytes = command_.max_metadata_bytes,
                             .progress = progress_for_people(command_.log_target())};
  std::string reason;
  auto filesystem = Filesystem::mount(std::move(volume), options, &reason);
  if (!filesystem.ok()) {
    if (reason.empty()) reason = describe(filesystem.error());
    *why_ = fmt::format("{}: {}", command_.source, reason);
    return filesystem.error();
  }
  filesystem_ = std::move(*filesystem);
  *commit_target_ = filesystem_.get();
  look_at_last_seen();
  return {};
}

// An older copy of a store is as sound as the store itself.
void Serving::look_at_last_seen() const {
  const auto seen = read_last_seen(filesystem_->uuid());
  const uint64_t found = raw(filesystem_->found_through());
  if (!seen || found >= seen->transaction) return;
  log::warn(
      "{} is older than when it was unmounted here at {}: at transaction {}, and it was at {}. An older copy of its "
      "store was put back, or the store has lost what was committed: what was written since is not there",
      command_.source, local_time(seen->at), found, seen->transaction);
}

// What is volatile has nothing that could be put back.
void Serving::keep_last_seen() const {
  if (filesystem_->read_only() || filesystem_->volume().session().durability != Durability::kDurable) return;
  brickfs::keep_last_seen(filesystem_->uuid(), raw(filesystem_->durable_through()));
}

// Before anything is mounted: a port that cannot be had is a reason not to.
Status Serving::listen_to_prometheus() {
  if (!command_.metrics) return {};
  auto server = MetricsServer::start(*command_.metrics, [this](Metrics& metrics) {
    if (const MountMonitor* const monitor = shown_) collect(monitor->state(MountMonitor::Clock::now()), metrics);
  });
  if (!server.ok()) {
    *why_ = fmt::format("option {}: {}", command_.common.at("metrics"), strerror(server.error().code()));
    return server.error();
  }
  metrics_ = std::move(*server);
  log::info("metrics at http://{}:{}/metrics", command_.metrics->host, metrics_->port());
  return {};
}

MountState Serving::fixed_state() const {
  MountState state;
  state.version = BRICKFS_VERSION;
  state.pid = getpid();
  state.source = command_.source;
  state.mountpoint = command_.mountpoint;
  state.mounted_since = time(nullptr);
  state.secret_file = command_.secret_path;
  state.durable = filesystem_->volume().session().durability == Durability::kDurable;
  state.soft = command_.soft;
  state.soft_seconds = command_.soft_timeout.count();
  state.io_uring = mount_->session().negotiation().has_uring();
  state.io_uring_obstacle = uring_obstacle_;
  state.writeback = command_.writeback == Writeback::kOn;
  state.writeback_obstacle = writeback_obstacle_;
  state.has_rings = command_.shm_queues;
  state.most_rings = command_.shm_queues ? shm_queue::kMostQueues : 0;
  state.request_limit_seconds = limit_.limit.value_or(std::chrono::seconds(0)).count();
  state.max_metadata_bytes = command_.max_metadata_bytes;
  return state;
}

void Serving::listen_to_umount() {
  if (geteuid() != 0) return;  // umount(8) runs a helper for root only
  auto listener = MountListener::start(*filesystem_, *ending_, *monitor_, command_.linger, common_options(),
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
  command.read_only = filesystem_->read_only();
  const bool durable = filesystem_->volume().session().durability == Durability::kDurable;
  return describe_common_options(command, durable, mount_->session().negotiation().has_uring());
}

void Serving::wait_for_end() {
  while (!is_readable(loop_->ended(), signals_fd(), limit_.limit ? kLookAtOutage : kLookAtDevice)) {
    if (mount_->is_severed()) break;
    monitor_->look(steady_clock::now());
    look_at_link();
    if (ending_->gave_up()) break;
  }
  asked_to_end_ = is_readable(signals_fd());
  take_signals();
  if (asked_to_end_) ending_->hurry();
  if (!asked_to_end_ && !ending_->gave_up() && mount_->is_mounted()) {
    log::error(
        "the kernel has ended the connection of {0} (umount -f, an abort, or a request took too long): it is dead "
        "until umount {0}",
        command_.mountpoint);
  }
}

void Serving::look_at_link() {
  const LinkState::Kind link = filesystem_->volume().link_state().kind;
  look_at_loss(link);
  const bool away = link != LinkState::Kind::kConnected && link != LinkState::Kind::kFailed;
  const auto now = steady_clock::now();
  if (!away) away_since_.reset();
  if (away && !away_since_) away_since_ = now;
  // For all at once, also who comes only now, or stood behind others: the kernel counts a request's time from when it
  // was made.
  const auto most = limit_.longest_outage();
  if (away && most && now - *away_since_ >= *most) {
    filesystem_->volume().give_up_silent(*most);
    filesystem_->volume().give_up_outage();
  }
  // After umount -l its users may wait for the brick for ever.
  ending_->set_detached((away || filesystem_->volume().is_away()) && !mount_->is_mounted());
  ending_->check();
}

// Another has the volume, or nobody: what the kernel keeps of it is not what is there. Once more later, as an answer
// may have been under way.
void Serving::look_at_loss(LinkState::Kind link) {
  constexpr int kDrops = 2;
  if (link != LinkState::Kind::kFailed || drops_ == kDrops || filesystem_->volume().final_error().ok()) return;
  if (drops_ == 0) std::this_thread::sleep_for(kHeard);
  ++drops_;
  mount_->drop_everything();
}

Status Serving::finish() {
  metrics_.reset();
  if (listener_ && mount_->is_severed()) listener_->close();
  ending_->begin();
  const UniqueFd done(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Status status;
  LinkState link;  // before it is closed
  std::thread closer([&] {
    end_requests();
    *commit_target_ = nullptr;
    link = filesystem_->volume().link_state();
    status = filesystem_->unmount();
    if (status.ok()) keep_last_seen();
    const uint64_t one = 1;
    (void)!::write(done.get(), &one, sizeof(one));
  });
  watch_until(done.get());
  closer.join();
  status = conclude(link, status);
  let_go(link.kind, status.ok() ? std::string() : *why_);
  return status;
}

// Only now is a brick in this process gone, too: umount may return.
void Serving::let_go(LinkState::Kind link, std::string text) {
  if (listener_) listener_->stop();
  filesystem_.reset();
  if (!listener_) return;
  UmountReport last;
  last.link = ending_->gave_up() ? LinkState::Kind::kWaiting : link;
  last.uncommitted = ending_->lost();
  last.text = std::move(text);
  listener_->tell_end(std::move(last));
  listener_.reset();
}

// What is left to say, in `why`.
Status Serving::conclude(const LinkState& link_before, Status unmounted) {
  if (unmounted.ok()) return {};
  const std::string lost = ending_->lost();
  if (ending_->gave_up()) {
    if (lost.empty()) return {};
    *why_ = fmt::format("{} was away: not committed, and lost as far as it has not reached the brick: {}",
                        command_.source, lost);
  } else if (link_before.kind == LinkState::Kind::kFailed) {
    *why_ = fmt::format("{}: {}", command_.source, link_before.text);
  } else {
    *why_ = fmt::format("unmounting {}: {}; what was written since the last sync may be lost", command_.mountpoint,
                        describe(unmounted.error()));
  }
  return unmounted;
}

void Serving::end_requests() {
  if (shm_queues_ != nullptr) shm_queues_->stop();
  if (asked_to_end_) mount_->detach([this] { return ending_ != nullptr && ending_->gave_up(); });
  loop_->stop();
  loop_.reset();
  mount_.reset();
}

void Serving::watch_until(int done) {
  while (!is_readable(done)) {
    if (is_readable(done, signals_fd(), kLookAtLink) && is_readable(signals_fd())) {
      take_signals();
      ending_->hurry();
    }
    ending_->check();
  }
}

}  // namespace

Status serve_mount(MountCommand command, const MountEvents& events, std::string* why) {
  Serving serving(std::move(command), events, why);
  TRY(serving.start());
  events.ready();
  serving.wait_for_end();
  return serving.finish();
}

}  // namespace brickfs
