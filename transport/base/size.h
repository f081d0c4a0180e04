// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them: 512, 64K, 4M, 1.5G, 2T (powers of 1024).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/base/result.h"

namespace brickfs {

// EINVAL for anything that is not digits and at most one of K M G T (either case), or does not fit 64 bits. Before such
// a letter there may be a point with up to six decimals, which are rounded down to bytes.
Result<uint64_t> parse_size(std::string_view text);

// The shortest exact form: 2097152 is "2M", 1000 is "1000".
std::string format_size(uint64_t bytes);

// Rounded, for people: "23.5G", "312M", "512".
std::string about_size(uint64_t bytes);

}  // namespace brickfs
