// SPDX-License-Identifier: Apache-2.0
// What a service manager that started brickd is told, and keeps for it: sd_notify(3), sd_listen_fds(3) and
// sd_pid_notify_with_fds(3), without their library.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/service/brick_service.h"
#include "transport/base/result.h"

namespace brickfs {

// Lines of NAME=VALUE to the socket in NOTIFY_SOCKET; without that variable, nothing. A manager that does not listen is
// no reason not to serve: failures are logged only.
void notify_service_manager(std::string_view state);

// systemd's descriptor store, in which the memory of a brick outlives brickd. It has room if the unit says
// FileDescriptorStoreMax=1: nobody tells us whether it has. EINVAL: no service manager has started this process.
// Takes what it was given out of the environment: to be called before there are other threads or descriptors.
Result<std::shared_ptr<MemoryKeeper>> service_manager_as_keeper();

}  // namespace brickfs
