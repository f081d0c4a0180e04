// SPDX-License-Identifier: Apache-2.0
// By what sets and their parts are told apart.
#pragma once

#include <array>
#include <cstddef>

namespace brickfs {

using SetId = std::array<std::byte, 16>;     // of a set; random
using MemberId = std::array<std::byte, 16>;  // of a place of a set, or of a replica; random

}  // namespace brickfs
