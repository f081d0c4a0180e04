// SPDX-License-Identifier: Apache-2.0
// Instead of transport/base/short_wait.h: a fiber that looks for something keeps those from running who would bring it.
#pragma once

#include <chrono>

namespace brickfs {

class ShortWait {
 public:
  ShortWait(std::chrono::microseconds /*look*/, std::chrono::microseconds /*soon*/) {}
  void begin() {}
  template <typename Come>
  bool look(Come /*come*/) const {
    return false;
  }
  void end() {}
};

}  // namespace brickfs
