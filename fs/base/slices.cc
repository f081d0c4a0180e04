// SPDX-License-Identifier: Apache-2.0
#include "fs/base/slices.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fs/base/ids.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

// What pads the data of partly written units. Only ever read.
constexpr std::array<std::byte, kUnitBytes> kZeros{};

}  // namespace

uint64_t total_bytes(std::span<const LocalSlice> slices) {
  uint64_t bytes = 0;
  for (const LocalSlice& slice : slices) bytes += slice.length_bytes;
  return bytes;
}

void SliceCursor::take(uint64_t bytes, std::vector<LocalSlice>& out) {
  while (bytes > 0) {
    out.push_back(next(bytes));
    bytes -= out.back().length_bytes;
  }
}

void SliceCursor::fill_with_zeros(uint64_t bytes) {
  while (bytes > 0) {
    const LocalSlice slice = next(bytes);
    std::memset(slice.data, 0, slice.length_bytes);
    bytes -= slice.length_bytes;
  }
}

void SliceCursor::fill(std::span<const std::byte> from) {
  while (!from.empty()) {
    const LocalSlice slice = next(from.size());
    std::memcpy(slice.data, from.data(), slice.length_bytes);
    from = from.subspan(slice.length_bytes);
  }
}

void SliceCursor::drain(std::span<std::byte> into) {
  while (!into.empty()) {
    const LocalSlice slice = next(into.size());
    std::memcpy(into.data(), slice.data, slice.length_bytes);
    into = into.subspan(slice.length_bytes);
  }
}

void SliceCursor::skip(uint64_t bytes) {
  while (bytes > 0) bytes -= next(bytes).length_bytes;
}

LocalSlice SliceCursor::next(uint64_t most) {
  while (!rest_.empty() && used_ == rest_.front().length_bytes) {
    rest_ = rest_.subspan(1);
    used_ = 0;
  }
  CHECK(!rest_.empty());
  const LocalSlice& front = rest_.front();
  const uint32_t length = static_cast<uint32_t>(std::min<uint64_t>(most, front.length_bytes - used_));
  const LocalSlice slice{front.data + used_, length, front.local_key};
  used_ += length;
  return slice;
}

void PieceList::add(uint64_t address, SliceCursor& local, uint64_t bytes) {
  if (bytes > 0) local.take(bytes, slices_at(address, bytes));
}

void PieceList::add_zeros(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  std::vector<LocalSlice>& slices = slices_at(address, bytes);
  for (; bytes > 0; bytes -= slices.back().length_bytes) {
    const uint32_t length = static_cast<uint32_t>(std::min<uint64_t>(bytes, kZeros.size()));
    slices.push_back({const_cast<std::byte*>(kZeros.data()), length, 0});
  }
}

std::vector<LocalSlice>& PieceList::slices_at(uint64_t address, uint64_t bytes) {
  if (pieces_.empty() || end_ != address) pieces_.push_back({address, {}});
  end_ = address + bytes;
  return pieces_.back().local;
}

}  // namespace brickfs
