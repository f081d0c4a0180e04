// SPDX-License-Identifier: Apache-2.0
// The Unix sockets of packets by which others on this machine come to a mount.
#pragma once

#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

enum class SocketFor { kRoot, kEverybody };

// At `path` in `directory`, which is made; what mounts that were killed left there is taken away. Nobody waits in
// accept(). EACCES and others.
Result<UniqueFd> listen_at(const char* directory, const std::string& path, SocketFor whom, int backlog);

}  // namespace brickfs
