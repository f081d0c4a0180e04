// SPDX-License-Identifier: Apache-2.0
// From a remote source to a Brick for it.
#pragma once

#include <memory>
#include <string>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"

namespace brickfs {

// Not connected yet: Brick::open() does that, with errors as there. ENODEV, with one line in `why`: no RDMA device
// here. EINVAL: an embedded source, whose brick the server library makes.
Result<std::unique_ptr<Brick>> make_remote_brick(const Source& source, const Secret& secret, std::string* why);

}  // namespace brickfs
