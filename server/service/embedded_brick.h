// SPDX-License-Identifier: Apache-2.0
// A brick inside the client's own process: what `memory:SIZE` and `file:PATH` mean. Data moves by memcpy.
#pragma once

#include <memory>

#include "server/service/brick_service.h"
#include "transport/brick/brick.h"

namespace brickfs {

// Shares the service with others that were made from it (tests); the last one to go stops it.
std::unique_ptr<Brick> make_embedded_brick(std::shared_ptr<BrickService> service);

}  // namespace brickfs
