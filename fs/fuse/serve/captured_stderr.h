// SPDX-License-Identifier: Apache-2.0
// What a program that this process starts (fusermount3, by libfuse) says on standard error.
//
// Threads: one at a time; what others write meanwhile gets to where it should, a moment later.
#pragma once

#include <string>
#include <string_view>

#include "transport/base/unique_fd.h"

namespace brickfs {

class CapturedStderr {
 public:
  // From now on. Without memory for it nothing is captured.
  CapturedStderr();
  ~CapturedStderr() { (void)take({}); }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  // Until now: the last line that begins with the program's name and a colon, without them, or nothing. Lines of others
  // go to standard error.
  std::string take(std::string_view program);

 private:
  UniqueFd kept_;  // a file in memory
  UniqueFd standard_error_;
};

}  // namespace brickfs
