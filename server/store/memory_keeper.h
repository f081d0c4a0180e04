// SPDX-License-Identifier: Apache-2.0
// Somebody who holds a descriptor of a brick's memory while no brickd runs: systemd, or a test.
#pragma once

#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class MemoryKeeper {
 public:
  virtual ~MemoryKeeper() = default;

  virtual std::string name() const = 0;  // for people
  // What was given to keep() last, by another process; invalid: nothing. Once.
  virtual UniqueFd take() = 0;
  // Holds a duplicate of it until another is given, or there is no use for it any more.
  virtual Status keep(int fd) = 0;
};

}  // namespace brickfs
