// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace brickfs {

// Told, often, how far a long run is: `done` of `total` of what is being done ("blocks of the checkpoint read"). May be
// empty.
using Progress = std::function<void(std::string_view what, uint64_t done, uint64_t total)>;

}  // namespace brickfs
