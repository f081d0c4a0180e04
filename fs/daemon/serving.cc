// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/serving.h"

#include <thread>

#include "fs/daemon/daemon.h"
#include "fs/daemon/watched_end.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAtDevice{1'000};  // all threads may be stuck when the kernel ends the connection
constexpr milliseconds kLookAtOutage{250};
constexpr milliseconds kHeard{200};  // of the volume's loss, by all that waits: a set hears of it within half of that

}  // namespace

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
  const LinkState::Kind link = access().link_state().kind;
  look_at_loss(link);
  const bool away = link != LinkState::Kind::kConnected && link != LinkState::Kind::kFailed;
  const auto now = steady_clock::now();
  if (!away) away_since_.reset();
  if (away && !away_since_) away_since_ = now;
  // For all at once, also who comes only now, or stood behind others: the kernel counts a request's time from when it
  // was made.
  const auto most = limit_.longest_outage();
  if (away && most && now - *away_since_ >= *most) {
    access().give_up_silent(*most);
    access().give_up_outage();
  }
  // After umount -l its users may wait for the brick for ever.
  ending_->set_detached((away || access().is_away()) && !mount_->is_mounted());
  ending_->check();
}

// Another has the volume, or nobody: what the kernel keeps of it is not what is there. Once more later, as an answer
// may have been under way.
void Serving::look_at_loss(LinkState::Kind link) {
  constexpr int kDrops = 2;
  if (link != LinkState::Kind::kFailed || drops_ == kDrops || access().final_error().ok()) return;
  if (drops_ == 0) std::this_thread::sleep_for(kHeard);
  ++drops_;
  mount_->drop_everything();
}

Status Serving::finish() {
  metrics_.reset();
  if (listener_ && mount_->is_severed()) listener_->close();
  ending_->begin();
  Status status;
  LinkState link;  // before it is closed
  run_watched(*ending_, [&] {
    end_requests();
    link = access().link_state();
    status = volume_->unmount();
  });
  status = conclude(command_, *ending_, link, status, why_);
  let_go(link.kind, status.ok() ? std::string() : *why_);
  return status;
}

// Only now is a brick in this process gone, too: umount may return.
void Serving::let_go(LinkState::Kind link, std::string text) {
  if (listener_) listener_->stop();
  volume_.reset();
  if (!listener_) return;
  UmountReport last;
  last.link = ending_->gave_up() ? LinkState::Kind::kWaiting : link;
  last.uncommitted = ending_->lost();
  last.text = std::move(text);
  listener_->tell_end(std::move(last));
  listener_.reset();
}

void Serving::end_requests() {
  volume_->stop_sharing();
  if (shm_queues_ != nullptr) shm_queues_->stop();
  if (asked_to_end_) mount_->session().locks().stop();
  if (asked_to_end_) mount_->detach([this] { return ending_ != nullptr && ending_->gave_up(); });
  loop_->stop();
  loop_.reset();
  mount_.reset();
}

Status serve_mount(MountCommand command, const MountEvents& events, std::string* why) {
  Serving serving(std::move(command), events, why);
  TRY(serving.start());
  events.ready();
  serving.wait_for_end();
  return serving.finish();
}

}  // namespace brickfs
