// SPDX-License-Identifier: Apache-2.0
// A coordinator that gives the volume to a member on purpose. Its members are told who is next while it serves them;
// then it lets go of the volume as at an umount: nobody has to find out that it has gone, nor to wait until its lease
// is over. What is not answered by then is asked of the next one.
//
// Deaths: before it lets go it is a coordinator that dies, behind that a member that does. Of a successor that does not
// come within kSuccessorTakes any member takes the place, this one too.
#include <chrono>
#include <thread>

#include "fs/served/served_volume.h"
#include "transport/base/log.h"
#include "transport/base/printable.h"

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
  if (own_session_ == 0 && !end_)
    return Error(EOPNOTSUPP,
                 "who coordinates it has done so from the start, and its programs go by that: umount it there, and a "
                 "member follows");
  MutexLock lock(mutex_);
  if (hands_over_.exchange(true)) return Error(EALREADY, "it is being handed over already");
  if (handing_over_.joinable()) handing_over_.join();
  handing_over_ = std::thread([this, to] {
    tell_and_let_go(to);
    hands_over_ = false;
  });
  return {};
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
  coordinator->stop();
  const Status ended = end_filesystem();
  let_go_of_lost();
  if (ended.ok()) {
    log::info("the volume is let go of: {} is to take it", printable(to.text));
  } else {
    log::error("handing over: {}; who takes the volume recovers it", describe(ended.error()));
  }
}

void ServedVolume::await_handover() {
  std::thread handing_over;
  {
    MutexLock lock(mutex_);
    handing_over.swap(handing_over_);
  }
  if (handing_over.joinable()) handing_over.join();
}

}  // namespace brickfs
