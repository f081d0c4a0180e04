// SPDX-License-Identifier: Apache-2.0
// Random numbers that nobody can guess: nonces, tokens, handle keys, boot ids, UUIDs.
#pragma once

#include <cstddef>
#include <span>

namespace brickfs {

// Of any length. Aborts when the system has none.
void fill_random(std::span<std::byte> bytes);

// Never zero.
template <typename Integer>
Integer random_id() {
  Integer id = 0;
  while (id == 0) fill_random(std::as_writable_bytes(std::span(&id, 1)));
  return id;
}

}  // namespace brickfs
