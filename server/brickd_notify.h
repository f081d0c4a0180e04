// SPDX-License-Identifier: Apache-2.0
// What a service manager that started brickd is told: sd_notify(3), without its library.
#pragma once

#include <string_view>

namespace brickfs {

// Lines of NAME=VALUE to the socket in NOTIFY_SOCKET; without that variable, nothing. A manager that does not listen is
// no reason not to serve: failures are logged only.
void notify_service_manager(std::string_view state);

}  // namespace brickfs
