// SPDX-License-Identifier: Apache-2.0
// Random numbers that nobody can guess: boot ids, handle keys, UUIDs.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <span>

#include "transport/base/check.h"

namespace brickfs {

// Fills `bytes`, at most 256 (so getrandom() neither fails nor falls short).
inline void fill_random(std::span<std::byte> bytes) {
  CHECK(bytes.size() <= 256);
  CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

// Never zero.
template <typename Integer>
Integer random_id() {
  Integer id = 0;
  while (id == 0) fill_random(std::as_writable_bytes(std::span(&id, 1)));
  return id;
}

}  // namespace brickfs
