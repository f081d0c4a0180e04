// SPDX-License-Identifier: Apache-2.0
// EXPECT() of the programs that try rings: what is not so ends them, with exit 1 and one line that says where.
#pragma once

#include <cstdio>
#include <cstdlib>

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
