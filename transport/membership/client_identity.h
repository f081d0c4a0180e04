// SPDX-License-Identifier: Apache-2.0
// Client ids that tell, on the machine that they are of, whether the client lives: a brick that has restarted keeps a
// volume for its former holder for some time (limits::kGrace), which is in vain when that has crashed, too.
//
// 32 bits are a hash of the boot of the machine and of the pid namespace, 22 the process, 10 random: so clients that
// live at the same time have different ones.
#pragma once

#include <sys/types.h>

#include <optional>

#include "transport/brick/brick.h"

namespace brickfs {

// For this process.
ClientId make_client_id();
// True: the client was a process of this machine, since it was booted, and of our pid namespace, and is there no more.
// False: it is there (or another that got its number), or this cannot be known here.
bool has_ended(ClientId client);

// The process, if the client was one of this boot of this machine and of our pid namespace. A name tells that not:
// hosts and containers have the same ones.
std::optional<pid_t> local_process(ClientId client);

// As Brick::open(). A volume that is kept for a client that has ended is not waited for.
Result<Session> open_past_ended(Brick& brick, OpenRequest request, Holder* holder);

}  // namespace brickfs
