// SPDX-License-Identifier: Apache-2.0
// What is said of copies that differ, by `set scrub` and by `check`.
#pragma once

#include <string>

#include "transport/volume/compare_replicas.h"

namespace brickfs {

// One line: "place 0: tcp://b:20470/home has 12 other bytes than tcp://a:20470/home in the block at 0x..., from ...".
std::string describe(const ReplicaDifference& difference);
// Of a copy in sync that was not there, by its source.
std::string describe_absent(const std::string& copy);

}  // namespace brickfs
