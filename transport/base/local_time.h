// SPDX-License-Identifier: Apache-2.0
// A time of the clock as people here read it: "2026-01-31 23:59:59".
#pragma once

#include <cstdint>
#include <string>

namespace brickfs {

std::string local_time(int64_t unix_seconds);

}  // namespace brickfs
