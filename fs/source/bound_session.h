// SPDX-License-Identifier: Apache-2.0
// What is asked of a brick of a volume that another client has, by whichever way it is reached.
#pragma once

#include <optional>
#include <string>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/volume/readable_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

// Who has that volume of the brick now, or had it and was cut off; none: it was let go of. Does not disturb him. No
// session is open on return. Errors as Brick::open().
Result<std::optional<Holder>> ask_for_holder(Brick& brick, const std::string& volume);

// Of a session for reading, or for writing, too, that is bound to the lease of whoever has the volume: he expels
// `client` from all bricks by that.
VolumeOptions options_of_bound(const std::string& volume, const ReadableBrick& brick, bool writes, ClientId client,
                               const std::string& client_name);

}  // namespace brickfs
