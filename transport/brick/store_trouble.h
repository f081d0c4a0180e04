// SPDX-License-Identifier: Apache-2.0
// What ails the store of a durable brick. The brick says it at the end of BrickStat::medium, which is for people.
#pragma once

#include <string_view>

namespace brickfs {

constexpr std::string_view kStoreDiskFull = "its disk is full";
constexpr std::string_view kStoreFailed = "its disk failed: nothing is committed any more";
constexpr std::string_view kBeforeTrouble = "; ";

// One of these, or nothing.
constexpr std::string_view store_trouble(std::string_view medium) {
  for (const std::string_view trouble : {kStoreDiskFull, kStoreFailed}) {
    if (medium.ends_with(trouble)) return trouble;
  }
  return {};
}

}  // namespace brickfs
