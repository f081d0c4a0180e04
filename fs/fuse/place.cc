// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/place.h"

#include <linux/fuse.h>

#include <algorithm>
#include <cstring>

namespace brickfs {
namespace {

thread_local FusePlace* current_place = nullptr;

}  // namespace

FusePlace* FusePlace::current() { return current_place; }

void FusePlace::set_current(FusePlace* place) { current_place = place; }

uint64_t FusePlace::unique() const {
  fuse_in_header header{};
  std::memcpy(&header, message_.data(), std::min(message_.size(), sizeof(header)));
  return header.unique;
}

}  // namespace brickfs
