// SPDX-License-Identifier: Apache-2.0
#include "transport/base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "transport/base/check.h"

namespace brickfs {

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    CHECK(got > 0 || errno == EINTR);
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

}  // namespace brickfs
