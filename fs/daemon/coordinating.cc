// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/coordinating.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fs/daemon/daemon.h"
#include "fs/daemon/watched_end.h"
#include "fs/mount/status/without_mount.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAtVolume{250};

}  // namespace

Status Coordinating::start() {
  ::prctl(PR_SET_NAME, kNameWithoutMount);
  metrics_ = TRY(serve_metrics(
      command_, [this] { return shown_.load(); }, why_));
  volume_ = TRY(ServedVolume::open(command_, events_.waiting, why_));
  defer_signals();
  ending_ = std::make_unique<Ending>(volume_->files(), command_.linger);
  monitor_ = std::make_unique<MountMonitor>(volume_->files(), nullptr, nullptr, fixed_state(), std::string(),
                                            [this](MountState& state) { volume_->tell_sharing(state); });
  shown_ = monitor_.get();
  volume_->end_with_handover([this] { handed_over_ = true; });
  volume_->start_sharing(nullptr);
  listen();
  return {};
}

MountState Coordinating::fixed_state() const {
  MountState state = brickfs::fixed_state(command_, access().durability());
  state.mountpoint = name_without_mount(getpid());
  state.sharing = volume_->is_member() ? "member" : "coordinator";
  return state;
}

void Coordinating::listen() {
  if (geteuid() != 0) return;
  auto listener = MountListener::start(volume_->files(), *ending_, *monitor_, command_.linger,
                                       describe_common_options(command_, false, false), name_without_mount(getpid()));
  if (listener.ok()) {
    listener_ = std::move(*listener);
  } else {
    log::warn("brickctl cannot ask how this goes: {}", describe(listener.error()));
  }
}

bool Coordinating::is_lost() const {
  return access().link_state().kind == LinkState::Kind::kFailed && !access().final_error().ok();
}

// Nobody has anything of a lost volume here that he would have to unmount.
void Coordinating::wait_for_end() {
  while (!handed_over_ && !is_readable(signals_fd(), signals_fd(), kLookAtVolume)) {
    monitor_->look(steady_clock::now());
    if (is_lost()) return;
  }
  take_signals();
  ending_->hurry();
}

Status Coordinating::finish() {
  metrics_.reset();
  ending_->begin();
  Status status;
  LinkState link;  // before it is closed
  run_watched(*ending_, [&] {
    volume_->stop_sharing();
    link = access().link_state();
    status = volume_->unmount();
  });
  status = conclude(command_, *ending_, link, status, why_);
  listener_.reset();
  volume_.reset();
  return status;
}

Status coordinate_without_mount(MountCommand command, const MountEvents& events, std::string* why) {
  Coordinating coordinating(std::move(command), events, why);
  TRY(coordinating.start());
  events.ready();
  coordinating.wait_for_end();
  return coordinating.finish();
}

}  // namespace brickfs
