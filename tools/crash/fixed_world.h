// SPDX-License-Identifier: Apache-2.0
// In this program time and random numbers are the same in every run, so that what it finds can be found again: they take the place
// of fs/clock.cc and of the C library's.
#pragma once

namespace brickfs {

// Time begins anew.
void set_clock_back();

}  // namespace brickfs
