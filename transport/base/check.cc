// SPDX-License-Identifier: Apache-2.0
#include "transport/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace brickfs {

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "brickfs: internal error: %s does not hold (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace brickfs
