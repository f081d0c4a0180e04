// SPDX-License-Identifier: Apache-2.0
// For a new entry of a CPU's queue (fs/fuse/serve/uring_request.h). The kernel gives it only what is requested from
// then on: a request that has been waiting for an entry goes to the one whose request was answered last. So brickfs
// makes a request of its own there, which needs no brick. docs/decisions, 61.
#pragma once

#include <cstddef>
#include <string>

namespace brickfs {

// Waits for nothing: the request is made by a process that nobody knows of any more. At worst it waits with the others
// until one of them is answered, or the connection ends. Best effort: the CPU may not be for this process.
void kick_uring(const std::string& mountpoint, size_t cpu);

}  // namespace brickfs
