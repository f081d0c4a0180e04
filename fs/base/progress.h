// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace brickfs {

// Told, often, how far a long run is: `done` of `total` of what is being done ("blocks of the checkpoint read"). May be
// empty.
using Progress = std::function<void(std::string_view what, uint64_t done, uint64_t total)>;

// A line in the log every five seconds, with rate and time left; nothing of a run that is done within three.
// Threads: one at a time.
Progress progress_in_log();

}  // namespace brickfs
