// SPDX-License-Identifier: Apache-2.0
// What EHOSTUNREACH says where there is no address to go to.
#pragma once

#include <string_view>

#include "transport/base/result.h"

namespace brickfs {

constexpr const char* kUnknownHost = "nobody here knows a host of that name";

constexpr bool is_unknown_host(Error error) { return std::string_view(error.what()) == kUnknownHost; }

}  // namespace brickfs
