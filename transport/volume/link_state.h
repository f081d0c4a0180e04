// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transport/base/result.h"

namespace brickfs {

// How the text of a link begins that waits for the map of its set, and not for a brick alone.
inline constexpr const char* kWaitsForEtcd = "waits for etcd";

struct LinkState {
  // Silent: connected, but the brick has not answered for some time.
  enum class Kind { kConnected, kSilent, kWaiting, kFailed } kind = Kind::kConnected;
  Error error{0};    // why, unless connected
  std::string text;  // for people: the path while connected (Session::transport), else what is the matter
};

}  // namespace brickfs
