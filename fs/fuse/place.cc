// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/place.h"

#include <linux/fuse.h>

#include <algorithm>
#include <cstring>

namespace brickfs {
namespace {

thread_local FusePlace* current_place = nullptr;

fuse_in_header header_of(std::span<const std::byte> message) {
  fuse_in_header header{};
  std::memcpy(&header, message.data(), std::min(message.size(), sizeof(header)));
  return header;
}

}  // namespace

FusePlace* FusePlace::current() { return current_place; }

void FusePlace::set_current(FusePlace* place) { current_place = place; }

void FusePlace::answer_here(const Answer& answer) {
  set_current(this);
  answer();
  set_current(nullptr);
}

uint64_t FusePlace::unique() const { return header_of(message_).unique; }

void FusePlace::set_message(std::span<std::byte> message) {
  message_ = message;
  const fuse_in_header header = header_of(message);
  waiter_.begin(header.unique, header.pid);
}

}  // namespace brickfs
