// SPDX-License-Identifier: Apache-2.0
// Why a store is not opened: the error, and the line for people in `why` unless that is null.
#pragma once

#include <fmt/core.h>

#include <cstring>
#include <string>
#include <utility>

#include "transport/base/result.h"

namespace brickfs {

inline Error refuse_store(std::string* why, int code, std::string text) {
  if (why != nullptr) *why = std::move(text);
  return Error(code, "opening the store");
}

// As the system says it.
inline Error refuse_store(std::string* why, const std::string& path, const char* doing, int code) {
  return refuse_store(why, code, fmt::format("store {}: {}: {}", path, doing, std::strerror(code)));
}

}  // namespace brickfs
