// SPDX-License-Identifier: Apache-2.0
// A volume that this host has mounted, wanted at another place as well. One client has a volume at a time, so a second
// brickfs would be refused; what is meant is a bind mount, and that is what root gets, with the options of one mount
// (ro, nodev ...) of its own. The options that the serving brickfs goes by (hard, timeo= ...) are those of the first
// mount: who names others is refused, and told.
//
// Trusted are root's mounts alone: any user can make a FUSE mount that says it is of some source.
#pragma once

#include <optional>
#include <string>

#include "fs/mount/mount_options.h"
#include "transport/base/result.h"
#include "transport/brick/calls.h"

namespace brickfs {

// Mounts the volume at the command's mountpoint, too. Nothing: it is not mounted by root, nobody answers for that
// mount, it has lost the volume, or the command takes the volume over (`steal`), or comes from somebody else than root:
// go on as if there were none. EBUSY, with one line in `why`: the options do not fit; `-f`; it is mounted there
// already.
std::optional<Status> mount_once_more(const MountCommand& command, std::string* why);
// That is so now, or the answer would be EBUSY.
bool can_mount_once_more(const MountCommand& command);

// Who holds the volume is a brickfs of this host that has not mounted it yet: then one waits for it.
bool is_being_mounted_here(const Holder& holder);

// The client's name that a brick is told, and others are told by it.
std::string client_name();

// For a refusal, with what the brick says of the holder: where this host has the volume mounted, if it can be told, and
// the command that mounts it once more by hand. Nothing is mounted because a brick says so.
std::string describe_first_mount(const MountCommand& command, const Holder& holder);

}  // namespace brickfs
