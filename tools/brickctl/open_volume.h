// SPDX-License-Identifier: Apache-2.0
// The volume that a command reads as a whole, on however many bricks.
#pragma once

#include <memory>
#include <string>

#include "tools/brickctl/commands.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Of the command's source. One that is held is tried for some seconds: its holder may be on his way out. With one line
// in `why`.
Result<std::unique_ptr<VolumeSet>> open_volume(const Command& command, OpenMode mode, std::string* why);

}  // namespace brickfs
