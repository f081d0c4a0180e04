// SPDX-License-Identifier: Apache-2.0
// How a brickfs ends: under watch, so that no brick which is away holds it for ever, and with what is left to say.
#pragma once

#include <functional>
#include <string>

#include "fs/mount/mount_options.h"
#include "fs/operations/ending.h"
#include "transport/base/result.h"
#include "transport/volume/link_state.h"

namespace brickfs {

// A thread runs `end`. Meanwhile this one hears signals (daemon.h) and looks at `ending`. Returns when `end` has.
void run_watched(Ending& ending, const std::function<void()>& end);

// What an unmount that answered so came to, with one line in `why` if not all is well. `link`: as it was before.
Status conclude(const MountCommand& command, const Ending& ending, const LinkState& link, Status unmounted,
                std::string* why);

}  // namespace brickfs
