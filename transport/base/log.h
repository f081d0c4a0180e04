// SPDX-License-Identifier: Apache-2.0
// The process's log: spdlog's default logger, set up once. Use spdlog::info(...) and friends directly.
// An error is logged once, where it is detected, and says what the operator can do.
#pragma once

#include <string_view>

#include "transport/base/result.h"

namespace brickfs {

// kBoth: a daemon's. Its standard error, until it lets go of that, is that of whoever starts it, and gets warnings and errors only.
enum class LogTarget { kStandardError, kSystemLog, kBoth };

// `level`: trace, debug, info, warn, error, off. EINVAL for anything else. `program` names the process in each line.
Status set_up_log(std::string_view program, std::string_view level, LogTarget target);

}  // namespace brickfs
