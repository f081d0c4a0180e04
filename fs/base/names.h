// SPDX-License-Identifier: Apache-2.0
// What may be a name in a directory; and an attribute that is none of a file's.
#pragma once

#include <string_view>

#include "transport/base/result.h"

namespace brickfs {

// Of a name to be made. ENAMETOOLONG, ENOENT (empty), EEXIST ("." and ".."), EINVAL (a slash or a zero byte).
Status check_new_name(std::string_view name);

// What a mount says of itself, at the root: not stored, not listed, read-only. docs/operations.md
constexpr std::string_view kLinkAttribute = "brickfs.link";

}  // namespace brickfs
