// SPDX-License-Identifier: Apache-2.0
// A coordinator that gives the volume to a member on purpose. Its members are told who is next while it serves them;
// then it lets go of the volume as at an umount: nobody has to find out that it has gone, nor to wait until its lease
// is over. What is not answered by then is asked of the next one.
//
// Deaths: before it lets go it is a coordinator that dies, behind that a member that does. Of a successor that does not
// come within kSuccessorTakes any member takes the place, this one too.
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fs/mount/second_mount.h"
#include "fs/served/served_volume.h"
#include "transport/base/log.h"
#include "transport/base/printable.h"
#include "transport/membership/coordinator_name.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMembersAsk{3'000};  // each second, if they are well
constexpr milliseconds kLookAtMembersAsking{20};

}  // namespace

ServedVolume::~ServedVolume() { await_handover(); }

// By a thread of the coordinator's, which stops it: so another one does that.
Status ServedVolume::hand_over(const shared::HandoverAnswer& to) {
  TRY(begin_handover());
  if (const Status joined = be_own_member(); !joined.ok()) {
    end_handover();
    return joined;
  }
  MutexLock lock(mutex_);
  handing_over_ = Thread([this, to] {
    tell_and_let_go(to);
    end_handover();
  });
  return {};
}

// Until end_handover() nobody ends what it stands on.
Status ServedVolume::begin_handover() {
  Thread last;
  {
    MutexLock lock(mutex_);
    if (ends_) return Error(EAGAIN, "it ends");
    if (std::exchange(hands_over_, true)) return Error(EALREADY, "it is being handed over already");
    last.swap(handing_over_);
  }
  if (last.joinable()) last.join();
  return {};
}

void ServedVolume::end_handover() {
  MutexLock lock(mutex_);
  hands_over_ = false;
  handed_over_.notify_all();
}

std::string ServedVolume::own_name() const { return client_name(); }

// Who goes by the tree in this process is to be a member that the next coordinator knows. It asks for nothing yet.
Status ServedVolume::be_own_member() {
  if (own_session_ != 0 || end_) return {};
  std::string why;
  const Status joined = join(command_, this_coordinator(), &why);
  if (!joined.ok()) log::warn("the volume cannot be handed over: {}", why);
  return joined.ok() ? joined : Status(Error(joined.code(), "it cannot become a member: its log says why"));
}

// What the own kernel and programs have of the tree, but for what others have: those have been cut off.
void ServedVolume::take_up() {
  std::vector<shared::MemberFiles::Referenced> own;
  const auto& others = coordinator()->left_references();
  for (const auto& each : filesystem_->referenced()) {
    const auto found = others.find(each.ino);
    const uint64_t of_others = found == others.end() ? 0 : found->second;
    if (each.references > of_others) own.push_back({each.ino, each.references - of_others, each.is_regular});
  }
  member()->take_up(own, filesystem_->end_own_waiting());
  if (kernel_ != nullptr) member()->keep_pages(*kernel_, kernel_->open_by_pages());
}

void ServedVolume::tell_and_let_go(const shared::HandoverAnswer& to) {
  MutexLock role(changing_role_);
  const auto coordinator = this->coordinator();
  if (!coordinator || filesystem_->volume().final_error().code() == ESTALE) return;
  log::info("handing the volume over to {}", printable(to.text));
  coordinator->name_successor(to.session);
  // What has to be written is, while all are served.
  const Status short_journal = filesystem_->checkpoint();
  if (!short_journal.ok()) log::warn("a handover takes longer: {}", describe(short_journal.error()));
  const auto until = steady_clock::now() + kMembersAsk;
  while (!coordinator->is_successor_known() && steady_clock::now() < until)
    std::this_thread::sleep_for(kLookAtMembersAsking);
  if (own_session_ == 0) return end_();
  const bool is_first = switched_ && !switched_->has_switched();
  if (is_first && kernel_ != nullptr) kernel_->become_member();
  if (is_first) switched_->close([this] { (void)filesystem_->end_own_waiting(); });
  coordinator->stop();
  if (is_first) take_up();
  const Status ended = end_filesystem();
  // Its programs were answered before that was on the bricks.
  if (is_first && !ended.ok()) member()->lose("not all was written when it was to be handed over");
  let_go_of_lost();
  if (is_first) switched_->switch_to(*member());
  if (ended.ok()) {
    log::info("the volume is let go of: {} is to take it", printable(to.text));
  } else {
    log::error("handing over: {}; who takes the volume recovers it", describe(ended.error()));
  }
}

void ServedVolume::await_handover() {
  Thread handing_over;
  {
    MutexLock lock(mutex_);
    ends_ = true;
    while (hands_over_) handed_over_.wait(lock);
    handing_over.swap(handing_over_);
  }
  if (handing_over.joinable()) handing_over.join();
}

}  // namespace brickfs
