// SPDX-License-Identifier: Apache-2.0
// CHECK: an assertion that stays on in release builds, for our own bugs only. Bytes from a peer, a brick or a file
// are validated and answered with an Error, never checked with this.
#pragma once

namespace brickfs {
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}

#define CHECK(condition)                                       \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::brickfs::check_failed(#condition, __FILE__, __LINE__); \
    }                                                          \
  } while (false)
