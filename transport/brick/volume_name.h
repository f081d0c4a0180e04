// SPDX-License-Identifier: Apache-2.0
// What a volume of a brick may be called: the one rule for sources, bricks and stores.
#pragma once

#include <string_view>

namespace brickfs {

// 1 to limits::kVolumeNameBytes letters, digits, '.', '_' and '-' of ASCII.
bool is_volume_name(std::string_view name);

}  // namespace brickfs
