// SPDX-License-Identifier: Apache-2.0
// What ails the store of a durable brick, or its memory. The brick says it behind BrickStat::medium, which is for
// people; the store's comes last.
#pragma once

#include <string_view>

namespace brickfs {

constexpr std::string_view kStoreDiskFull = "its disk is full";
constexpr std::string_view kStoreFailed = "its disk failed: nothing is committed any more";
constexpr std::string_view kNormalPages = "too few huge pages for devices";
constexpr std::string_view kBeforeTrouble = "; ";
constexpr std::string_view kStoreAt = " with store ";  // behind it stands its path

// One of these, or nothing.
constexpr std::string_view store_trouble(std::string_view medium) {
  for (const std::string_view trouble : {kStoreDiskFull, kStoreFailed}) {
    if (medium.ends_with(trouble)) return trouble;
  }
  return {};
}

constexpr bool has_normal_pages(std::string_view medium) { return medium.find(kNormalPages) != medium.npos; }

}  // namespace brickfs
