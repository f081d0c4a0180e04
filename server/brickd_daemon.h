// SPDX-License-Identifier: Apache-2.0
// Leaving the foreground: the starting process returns once its child serves, or says why it does not.
#pragma once

#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class Daemon {
 public:
  // Forks; in the parent it does not return: it exits as the child reports. Call before any thread exists.
  static Result<Daemon> start();

  // In the child: detached from terminal and working directory, and the parent exits with 0.
  void serving();
  // The parent says this line and exits with 1.
  void failed(const std::string& line);

 private:
  explicit Daemon(UniqueFd to_parent) : to_parent_(std::move(to_parent)) {}
  UniqueFd to_parent_;
};

}  // namespace brickfs
