// SPDX-License-Identifier: Apache-2.0
// A brick of this process behind a listener over libfabric, on loopback.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/listening_test_brick.h"

namespace brickfs::testing {

// Not by shm: libfabric 1.17 has endpoints of one process share their memory, and one that closes takes it away from
// the others.
class FabricTestBrick final : public ListeningTestBrick {
 public:
  FabricTestBrick(BrickConfig config, std::string provider, std::vector<std::string> addresses = {"127.0.0.1"},
                  Secret secret = {});
};

// For brick_kinds().
std::vector<BrickKind> fabric_kinds();

}  // namespace brickfs::testing
