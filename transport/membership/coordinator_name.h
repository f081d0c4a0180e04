// SPDX-License-Identifier: Apache-2.0
// Whoever shares its volume with other machines has the address at which it does in its client name, by which a brick,
// or the map of a set, tells whom it refuses who has the volume: so nothing else has to be told where it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/brick/source.h"

namespace brickfs {

// "host (pid 12)" becomes "host (pid 12) shares at 10.0.0.1:4711".
std::string name_of_coordinator(std::string_view client_name, const HostPort& address);
// And back; what has another form stays as it is.
std::string plain_name(std::string_view name);
// None: whoever has that name shares nothing.
std::optional<HostPort> address_of_coordinator(std::string_view name);

}  // namespace brickfs
