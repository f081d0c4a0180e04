// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/request_limit.h"

#include <algorithm>
#include <fstream>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLeastLimit{15};  // what is set below that counts as this: the kernel looks so often
constexpr uint16_t kMostSeconds = UINT16_MAX;
constexpr milliseconds kToAnswer{5'000};  // for all that waits, one after the other
constexpr milliseconds kLeastOutage{2'000};

// 0: not set, or this kernel has none.
unsigned read_setting(const std::string& path) {
  std::ifstream file(path);
  unsigned value = 0;
  return file >> value ? value : 0;
}

}  // namespace

std::optional<milliseconds> RequestLimit::longest_outage() const {
  if (!limit) return std::nullopt;
  return std::max<milliseconds>(*limit - limits::kLease - kToAnswer, kLeastOutage);
}

RequestLimit read_request_limit(const std::string& directory) {
  const unsigned most = read_setting(directory + "/max_request_timeout");
  const unsigned usual = read_setting(directory + "/default_request_timeout");
  RequestLimit found;
  if (most != 0) {
    // Who asks for nothing gets the default, if that is less.
    found.limit = seconds(usual != 0 ? std::min(most, kMostSeconds + 0U) : most);
    if (usual != 0) found.ask_seconds = kMostSeconds;
  } else if (usual != 0) {
    found.limit = seconds(kMostSeconds);
    found.ask_seconds = kMostSeconds;
  }
  if (found.limit) found.limit = std::max(*found.limit, kLeastLimit);
  return found;
}

}  // namespace brickfs
