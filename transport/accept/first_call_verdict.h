// SPDX-License-Identifier: Apache-2.0
// What is answered to the first call of an unauthenticated peer, and when.
#pragma once

#include <chrono>

#include "transport/base/result.h"
#include "transport/brick/volume_key.h"

namespace brickfs {

struct FirstCallVerdict {
  Result<Credential> proof;           // by what it is proved. EACCES: by nothing; others: it cannot be
  std::chrono::milliseconds delay{};  // of a refusal
};

}  // namespace brickfs
