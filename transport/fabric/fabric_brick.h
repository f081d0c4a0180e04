// SPDX-License-Identifier: Apache-2.0
// The brick interface over libfabric (docs/protocol.md, "libfabric"): calls over TCP, data by one-sided reads and
// writes of whatever provider there is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"

namespace brickfs {

// `addresses`: ways to one brick, at least one; the session uses all that work. `provider`: empty: the brick's.
std::unique_ptr<Brick> make_fabric_brick(std::vector<HostPort> addresses, std::string provider,
                                         const ClientSecret& secret);

}  // namespace brickfs
