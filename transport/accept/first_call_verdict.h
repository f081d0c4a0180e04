// SPDX-License-Identifier: Apache-2.0
// What is answered to the first call of an unauthenticated peer, and when.
#pragma once

#include <chrono>

#include "transport/base/result.h"
#include "transport/brick/proof.h"

namespace brickfs {

struct FirstCallVerdict {
  Result<Secret> proof;               // the secret by which it is proved. EACCES: by none; others: it cannot be
  std::chrono::milliseconds delay{};  // of a refusal
};

}  // namespace brickfs
