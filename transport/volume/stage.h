// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace brickfs {

// What a write is part of; a commit makes stages durable in this order, so that what refers never outlives what it
// refers to.
enum class Stage : uint8_t { kData = 0, kJournal = 1, kSuperblock = 2 };
constexpr size_t kStages = 3;

}  // namespace brickfs
