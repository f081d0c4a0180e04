// SPDX-License-Identifier: Apache-2.0
// In this program time and random numbers are the same in every run, so that what it finds can be found again: they
// take the place of fs/operations/clock.cc and of the C library's. What waits for a time waits for that of the
// simulated threads (fibers.h).
#pragma once

#include <cstdint>

namespace brickfs {

// Ends the program unless it is its own clock that libraries ask.
void check_clock();
// Time begins anew.
void set_clock_back();
// Random numbers, which are all the same otherwise, differ from now on, as the seed says.
void set_random(uint64_t seed);
// Since some beginning; of the world outside.
double real_seconds();

}  // namespace brickfs
