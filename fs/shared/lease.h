// SPDX-License-Identifier: Apache-2.0
// What a member of a shared volume may rely on of an inode until the coordinator recalls it (docs/shared.md).
#pragma once

#include <cstdint>

namespace brickfs::shared {

// Several are one set of bits.
enum class Lease : uint8_t {
  kNone = 0,
  kAttributes = 1,  // with extended ones, ACLs, and where a symbolic link points to
  kNames = 2,       // of a directory: which there are, what they name, and that all others name nothing
  kData = 4,        // where the bytes are, and the bytes
};
constexpr int kLeaseKinds = 3;

constexpr Lease operator|(Lease a, Lease b) {
  return static_cast<Lease>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr Lease operator&(Lease a, Lease b) {
  return static_cast<Lease>(static_cast<uint8_t>(a) & static_cast<uint8_t>(b));
}
constexpr Lease without(Lease a, Lease b) {
  return static_cast<Lease>(static_cast<uint8_t>(a) & ~static_cast<uint8_t>(b));
}
constexpr bool has(Lease all, Lease wanted) { return (all & wanted) == wanted; }
constexpr bool any(Lease kinds) { return kinds != Lease::kNone; }

}  // namespace brickfs::shared
