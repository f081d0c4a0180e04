// SPDX-License-Identifier: Apache-2.0
// From a remote source to a Brick for it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"
#include "transport/paths/path_watch.h"

namespace brickfs {

// Not connected yet: Brick::open() does that, with errors as there. ENODEV, with one line in `why`: no RDMA device
// here, or no libfabric. EINVAL: an embedded source, whose brick the server library makes.
Result<std::unique_ptr<Brick>> make_remote_brick(const Source& source, const ClientSecret& secret, std::string* why);

// The way around is TCP to the same hosts, at the port that the brick has told (Session::tcp_port), or else that of the
// addresses. `make_wanted`: an end of the brick by the wanted path, whose name for people is `wanted`.
std::unique_ptr<Brick> make_brick_with_tcp_around(std::string wanted, std::vector<HostPort> addresses,
                                                  const ClientSecret& secret,
                                                  std::function<std::unique_ptr<Brick>()> make_wanted,
                                                  PathTimes times = {});

}  // namespace brickfs
