// SPDX-License-Identifier: Apache-2.0
// systemd ends the processes of a unit with it: those of a login when that ends, those of a service when it stops, and
// at a shutdown before what they serve has been unmounted. A mount belongs to the system, whoever made it.
#pragma once

#include <string>

#include "transport/base/result.h"

namespace brickfs {

// Moves this process to a scope of its own, brickfs-PID.scope, which systemd ends at a shutdown only after the unit of
// the mount at `mountpoint`, and before what that unit needs: `over_network`, brickd.service of this machine and the
// network. Then the process has a SIGTERM, which commits what an unmount could not. It is gone with the process.
//
// The process stays where it is with ENOENT: no systemd runs here, or not for this process (another container's);
// EPERM: this is not root; EBUSY: it may be a service itself, and not what a service has started (Type=forking); any
// other: what systemd says. Blocks until it has moved, some seconds at most.
Status move_to_own_scope(const std::string& mountpoint, bool over_network);

// The name of the unit of what is mounted there (systemd-escape --path --suffix=mount), as systemd.unit(5) has it.
std::string mount_unit(const std::string& mountpoint);

}  // namespace brickfs
