// SPDX-License-Identifier: Apache-2.0
// A brick of this process behind an RDMA listener of its own, on a real device: at the address in
// $BRICKFS_RDMA_ADDRESS, or at all of $BRICKFS_RDMA_ADDRESSES (with commas) for several paths.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/listening_test_brick.h"

namespace brickfs::testing {

// Where an RDMA device of this machine is reached; none: it has none, or the tests were not told.
std::optional<std::string> verbs_address();
std::vector<std::string> verbs_addresses();  // of several devices; fewer than two: none were named

class VerbsTestBrick final : public ListeningTestBrick {
 public:
  VerbsTestBrick(BrickConfig config, std::vector<std::string> addresses, Secret secret = {});
};

std::unique_ptr<TestBrick> make_verbs_memory(uint64_t memory_blocks, uint64_t capacity_blocks,
                                             std::vector<VolumeSpec> volumes);
std::unique_ptr<TestBrick> make_verbs_kept(uint64_t memory_blocks, uint64_t capacity_blocks,
                                           std::vector<VolumeSpec> volumes);
std::unique_ptr<TestBrick> make_verbs_file(uint64_t memory_blocks, uint64_t capacity_blocks,
                                           std::vector<VolumeSpec> volumes);

}  // namespace brickfs::testing
