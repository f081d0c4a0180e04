// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/brick/brick.h"

namespace brickfs {

// `local` of a piece has any number of slices; the volume splits at blocks, handles and transfer limits.
struct Piece {
  uint64_t address = 0;           // volume address
  std::vector<LocalSlice> local;  // their total is the length; every touched block is allocated
};

// The same pieces with the keys that `key_of` gives for theirs, in `storage`; as they are, if none has any.
template <typename KeyOf>
std::span<const Piece> with_keys(std::span<const Piece> pieces, std::vector<Piece>& storage, KeyOf&& key_of) {
  const bool keyed = std::ranges::any_of(pieces, [](const Piece& piece) {
    return std::ranges::any_of(piece.local, [](const LocalSlice& slice) { return slice.local_key != 0; });
  });
  if (!keyed) return pieces;
  storage.assign(pieces.begin(), pieces.end());
  for (Piece& piece : storage) {
    for (LocalSlice& slice : piece.local) {
      if (slice.local_key != 0) slice.local_key = key_of(slice.local_key);
    }
  }
  return storage;
}

}  // namespace brickfs
