// SPDX-License-Identifier: Apache-2.0
// Instead of transport/base/short_wait.h: a fiber that polls for something keeps those from running who would bring it.
#pragma once

namespace brickfs {

class ShortWait {
 public:
  struct Policy {};
  static constexpr Policy kForWork{};

  explicit ShortWait(const Policy& /*policy*/) {}
  void begin() {}
  template <typename Come>
  bool poll(Come /*come*/) const {
    return false;
  }
  void end() {}
};

}  // namespace brickfs
