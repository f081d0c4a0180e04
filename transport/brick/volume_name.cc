// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/volume_name.h"

#include <algorithm>

#include "transport/brick/limits.h"

namespace brickfs {

bool is_volume_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
           c == '_';
  };
  return !name.empty() && name.size() <= limits::kVolumeNameBytes && std::ranges::all_of(name, fits);
}

bool is_new_volume_name(std::string_view name) {
  return is_volume_name(name) && name != "." && name != ".." && !name.starts_with('-');
}

}  // namespace brickfs
