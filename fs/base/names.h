// SPDX-License-Identifier: Apache-2.0
// What may be a name in a directory.
#pragma once

#include <string_view>

#include "transport/base/result.h"

namespace brickfs {

// Of a name to be made. ENAMETOOLONG, ENOENT (empty), EEXIST ("." and ".."), EINVAL (a slash or a zero byte).
Status check_new_name(std::string_view name);

}  // namespace brickfs
