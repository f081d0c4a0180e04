// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_retry.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "fs/mount/mountpoint.h"
#include "fs/mount/second_mount.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr minutes kInBackground{10'000};  // as mount.nfs(8)
constexpr seconds kFirstPause{1};
constexpr seconds kLongestPause{15};

// Time may mend it. Not: a wrong secret, no such volume, a volatile brick, damage.
bool may_pass(const Error& error) {
  switch (error.code()) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ETIMEDOUT:
    case EMSGSIZE:  // the path loses large packets
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ENODEV:  // of RDMA
    case EBUSY:   // held by another
      return true;
    default:
      return false;
  }
}

}  // namespace

MountRetry::MountRetry(const MountCommand& command, std::function<void(const std::string& why)> to_background)
    : command_(command),
      to_background_(std::move(to_background)),
      until_(Clock::now() + command.retry.value_or(command.background ? kInBackground : minutes(0))),
      pause_(kFirstPause) {}

bool MountRetry::wait(const Error& error, std::string* why) {
  const auto now = Clock::now();
  if (!may_pass(error) || now >= until_) return false;
  if (error.is(EBUSY) && can_mount_once_more(command_)) return false;
  if (first_ && command_.background) to_background_(*why);
  if (first_) log::info("{}; trying again", *why);
  first_ = false;
  std::this_thread::sleep_for(std::min(pause_, until_ - now));
  pause_ = std::min<Clock::duration>(pause_ * 2, kLongestPause);
  MountCommand looked_at = command_;
  return prepare_mountpoint(looked_at, why).ok();
}

}  // namespace brickfs
