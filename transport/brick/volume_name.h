// SPDX-License-Identifier: Apache-2.0
// What a volume of a brick may be called: the one rule for sources, bricks and stores.
#pragma once

#include <string_view>

namespace brickfs {

// 1 to limits::kVolumeNameBytes letters, digits, '.', '_' and '-' of ASCII.
bool is_volume_name(std::string_view name);
// What a new one may be called: not as a directory that is everywhere, nor as an option of a program. Older ones of
// such names can be used, and removed.
bool is_new_volume_name(std::string_view name);
constexpr const char* kVolumeNameRule =
    "a name has letters, digits, '.', '_' and '-', at most 63; it is not '.' or '..' and does not begin with '-'";

}  // namespace brickfs
