// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/uring_switch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>

#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr const char* kSwitches = "/sys/module/fuse/parameters";
constexpr const char* kSwitch = "/sys/module/fuse/parameters/enable_uring";

// 'Y', 'N'; 0: this kernel has none.
char read_switch() {
  std::ifstream setting(kSwitch);
  char value = 0;
  setting >> value;
  return value;
}

bool write_switch(char value) { return static_cast<bool>(std::ofstream(kSwitch) << value << std::flush); }

}  // namespace

// Its module is there once somebody has opened its device.
std::optional<std::string> UringSwitch::obstacle(bool turn_on) {
  if (::access(kSwitches, F_OK) != 0) UniqueFd(::open("/dev/fuse", O_RDWR | O_CLOEXEC)).reset();
  locked_.reset(::open(kSwitch, O_RDONLY | O_CLOEXEC));
  if (!locked_ && ::access(kSwitches, F_OK) != 0)
    return fmt::format("whether this kernel's FUSE has io_uring cannot be seen: there is no {} here", kSwitches);
  if (!locked_) return "this kernel's FUSE has no io_uring (Linux 6.14 has)";
  ::flock(locked_.get(), turn_on ? LOCK_EX : LOCK_SH);
  if (read_switch() == 'Y') return std::nullopt;
  turned_on_ = turn_on && write_switch('Y');
  if (turned_on_) return std::nullopt;
  locked_.reset();
  return fmt::format("FUSE over io_uring is switched off here; as root: echo Y > {}", kSwitch);
}

void UringSwitch::done() {
  if (turned_on_ && read_switch() == 'Y' && !write_switch('N')) log::warn("cannot put {} back to N", kSwitch);
  turned_on_ = false;
  locked_.reset();
}

}  // namespace brickfs
