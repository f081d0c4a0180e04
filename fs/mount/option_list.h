// SPDX-License-Identifier: Apache-2.0
// A list of mount options: commas stand between them, and quotes protect commas, as a label may have some:
// context="system_u:object_r:tmp_t:s0:c127,c456".
#pragma once

#include <algorithm>
#include <string_view>

namespace brickfs {

// The first one, which `list` loses. It may be empty.
inline std::string_view take_option(std::string_view& list) {
  bool quoted = false;
  const auto* const comma = std::find_if(list.begin(), list.end(), [&quoted](char c) {
    quoted = quoted != (c == '"');
    return c == ',' && !quoted;
  });
  const std::string_view option(list.begin(), comma);
  list.remove_prefix(std::min(list.size(), option.size() + 1));
  return option;
}

}  // namespace brickfs
