// SPDX-License-Identifier: Apache-2.0
// The switch of this host by which the kernel lets FUSE servers use io_uring: /sys/module/fuse/parameters/enable_uring,
// off by default. The kernel looks at it while a mount begins, and never again for that mount: so it is on only for so
// long. Who turns it on has a lock on it, lest another mount take it for the administrator's setting, or put it back
// too early.
#pragma once

#include <optional>
#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class UringSwitch {
 public:
  // Why the kernel may not, as a line for people with what to do about it; nothing if it may, as long as this lives.
  // `turn_on`: where the kernel can but may not, allows it (as root). Waits for other mounts that begin.
  std::optional<std::string> obstacle(bool turn_on);
  // A mount has begun, or will not: puts back what was changed, unless somebody else has changed it since.
  void done();
  // It was off and is on now, for this mount.
  bool turned_on() const { return turned_on_; }
  ~UringSwitch() { done(); }

  UringSwitch() = default;
  UringSwitch(const UringSwitch&) = delete;
  UringSwitch& operator=(const UringSwitch&) = delete;

 private:
  UniqueFd locked_;
  bool turned_on_ = false;
};

}  // namespace brickfs
