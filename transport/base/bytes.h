// SPDX-License-Identifier: Apache-2.0
// Little-endian fields of stored and wire structs, and sizes the whole project counts in.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace brickfs {

static_assert(std::endian::native == std::endian::little,
              "stored and wire structs are little-endian and used in place");

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

constexpr uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }
constexpr uint64_t round_down(uint64_t value, uint64_t step) { return value / step * step; }
constexpr uint64_t divide_up(uint64_t value, uint64_t step) { return value / step + (value % step != 0); }

// A stored or wire struct as raw bytes.
template <typename T>
requires std::is_trivially_copyable_v<T> std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Copies a T out of unaligned bytes. Precondition: from.size() >= sizeof(T).
template <typename T>
requires std::is_trivially_copyable_v<T> T load(std::span<const std::byte> from) {
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  return value;
}

}  // namespace brickfs
