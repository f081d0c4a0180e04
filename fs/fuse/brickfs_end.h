// SPDX-License-Identifier: Apache-2.0
// The brickfs behind a mount, seen from an unmount or from another brickfs: what it reports until it has ended.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "fs/fuse/umount_report.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class BrickfsEnd {
 public:
  // Before the unmount: later there is nothing to be found. With nobody behind it (killed, or not run by root) it is
  // gone from the start.
  explicit BrickfsEnd(const std::string& device_number);

  bool gone() const { return !socket_; }
  // Waits for the next report, not longer than `most`. False: none came.
  bool hear(std::chrono::milliseconds most);
  const std::optional<UmountReport>& last() const { return last_; }
  void tell(std::string_view word);

 private:
  UniqueFd socket_;
  std::optional<UmountReport> last_;
};

}  // namespace brickfs
