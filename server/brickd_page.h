// SPDX-License-Identifier: Apache-2.0
// brickd's page for people (--http): one document with all that it needs in it, and the numbers that it shows, which it
// asks for again and again. It is read, and changes nothing.
#pragma once

#include <vector>

#include "server/brickd_history.h"
#include "server/brickd_sets.h"
#include "transport/metrics/page_server.h"

namespace brickfs {

// "/", and "/status.json". The arguments outlive the server of the pages. `sets` may be null.
std::vector<Page> pages_of_brick(const BrickService& service, const BrickHistory& history, BrickSets* sets);

}  // namespace brickfs
