// SPDX-License-Identifier: Apache-2.0
// The map of a set as JSON, as etcd keeps it: docs/sets.md, "The map in etcd".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "transport/base/bytes.h"
#include "transport/base/result.h"
#include "transport/membership/set_map.h"

namespace brickfs {

constexpr uint64_t kMapFormat = 1;
constexpr size_t kMapBytes = 1 * kMiB;  // as JSON; etcd takes 1.5 MiB

// In lines, for people. parse_map() gives the same map again, if check_map() finds nothing wrong with it.
std::string format_map(const SetMap& map);
// With one line in `why`. EUCLEAN: this is no map. EPROTO: one of a newer format. Members that are not known are passed
// over.
Result<SetMap> parse_map(std::string_view text, std::string* why);

// Ids are 16 bytes in hexadecimal digits. EINVAL.
std::string format_id(const SetId& id);
Result<SetId> parse_id(std::string_view text);

}  // namespace brickfs
