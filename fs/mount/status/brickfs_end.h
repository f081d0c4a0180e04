// SPDX-License-Identifier: Apache-2.0
// The brickfs behind a mount, seen from an unmount, from another brickfs or from brickctl: what it reports until it has
// ended, and its state.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "fs/mount/status/mount_state.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class BrickfsEnd {
 public:
  // Before the unmount: later there is nothing to be found. With nobody behind it (killed, or not run by root), or if
  // this is not root, it is gone from the start.
  explicit BrickfsEnd(const std::string& device_number);

  bool gone() const { return !socket_; }
  // Waits for the next report, not longer than `most`. False: none came.
  bool hear(std::chrono::milliseconds most);
  const std::optional<UmountReport>& last() const { return last_; }
  void tell(std::string_view word);
  // Asks, and waits for the answer, not longer than `most`. Nothing: none came.
  std::optional<MountState> ask_state(std::chrono::milliseconds most);
  // Who is behind it, also when it does not answer; 0: nobody.
  pid_t pid() const;

 private:
  std::string receive(std::chrono::milliseconds most);

  UniqueFd socket_;
  std::optional<UmountReport> last_;
};

// What the brickfs behind a mount reports, asked once; of the mount with this device number. Nothing: there is none, or
// it does not answer.
std::optional<UmountReport> ask_server(const std::string& device_number);

}  // namespace brickfs
