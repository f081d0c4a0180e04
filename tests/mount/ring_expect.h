// SPDX-License-Identifier: Apache-2.0
// EXPECT() and EXPECT_EQUAL() of the programs that try rings: what is not so ends them, with exit 1 and one line that
// says where.
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

template <typename A, typename B>
void expect_equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return;
  fprintf(stderr, "%s:%d: %s: %lld and %lld\n", file, line, text, static_cast<long long>(a), static_cast<long long>(b));
  exit(1);
}
#define EXPECT_EQUAL(a, b) expect_equal(a, b, #a " and " #b, __FILE__, __LINE__)
