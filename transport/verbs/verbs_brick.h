// SPDX-License-Identifier: Apache-2.0
// The brick interface over RDMA (docs/protocol.md, "RDMA"): calls as messages, data by one-sided READ and WRITE
// straight from and to the caller's registered slices.
#pragma once

#include <memory>
#include <vector>

#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"

namespace brickfs {

// `addresses`: ways to one brick, at least one; the session uses all that work.
std::unique_ptr<Brick> make_verbs_brick(std::vector<HostPort> addresses, const ClientSecret& secret);

}  // namespace brickfs
