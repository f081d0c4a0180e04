// SPDX-License-Identifier: Apache-2.0
// Closing what a program has handed over: it may be of any file system, and that one's server may never answer. So a
// thread of its own does it, which may never end.
//
// Threads: any.
#pragma once

#include <utility>
#include <vector>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

// None of them is closed by the caller's thread, also with an error. EUSERS: too many threads are at it already.
Status close_elsewhere(std::vector<UniqueFd> descriptors);

inline Status close_elsewhere(UniqueFd descriptor) {
  std::vector<UniqueFd> one;
  if (descriptor) one.push_back(std::move(descriptor));
  return close_elsewhere(std::move(one));
}

// So that nothing should be taken from programs any more.
bool closes_too_many();

}  // namespace brickfs
