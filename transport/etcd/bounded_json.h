// SPDX-License-Identifier: Apache-2.0
// JSON that somebody hostile may have written: a few bytes of it become a hundred in memory, so what may be in it has
// bounds beside its length.
#pragma once

#include <cstddef>
#include <string_view>

namespace brickfs {

constexpr size_t kJsonDepth = 16;        // of objects and arrays in each other
constexpr size_t kJsonValues = 100'000;  // keys, numbers, strings ...

// It is JSON, and within the bounds. Takes no memory to speak of.
bool is_bounded_json(std::string_view text);

}  // namespace brickfs
