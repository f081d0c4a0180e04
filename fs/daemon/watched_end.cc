// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/watched_end.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "fs/daemon/daemon.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kLookAtEnding{100};

}  // namespace

void run_watched(Ending& ending, const std::function<void()>& end) {
  const UniqueFd done(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::thread closer([&] {
    end();
    const uint64_t one = 1;
    (void)!::write(done.get(), &one, sizeof(one));
  });
  while (!is_readable(done.get())) {
    if (is_readable(done.get(), signals_fd(), kLookAtEnding) && is_readable(signals_fd())) {
      take_signals();
      ending.hurry();
    }
    ending.check();
  }
  closer.join();
}

Status conclude(const MountCommand& command, const Ending& ending, const LinkState& link, Status unmounted,
                std::string* why) {
  if (unmounted.ok()) return {};
  const std::string lost = ending.lost();
  if (ending.gave_up()) {
    if (lost.empty()) return {};
    *why = fmt::format("{} was away: not committed, and lost as far as it has not reached the brick: {}",
                       command.source, lost);
  } else if (link.kind == LinkState::Kind::kFailed) {
    *why = fmt::format("{}: {}", command.source, link.text);
  } else {
    *why = fmt::format("unmounting {}: {}; what was written since the last sync may be lost",
                       command.mounts() ? command.mountpoint : command.source, describe(unmounted.error()));
  }
  return unmounted;
}

}  // namespace brickfs
