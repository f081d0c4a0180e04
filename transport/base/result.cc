// SPDX-License-Identifier: Apache-2.0
#include "transport/base/result.h"

#include <cstring>

namespace brickfs {

std::string describe(Error error) {
  const std::string reason = std::strerror(error.code());
  return *error.what() == '\0' ? reason : std::string(error.what()) + ": " + reason;
}

}  // namespace brickfs
