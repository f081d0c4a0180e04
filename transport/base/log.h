// SPDX-License-Identifier: Apache-2.0
// The process's log. Each line is made printable (printable.h) here. An error is logged once, where it is detected, and
// says what the operator can do. spdlog does the work behind line(); its headers, and what they instantiate for each
// kind of argument, stay in log.cc.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "transport/base/result.h"

namespace brickfs {

// kBoth: a daemon's. Its standard error, until it lets go of that, is that of whoever starts it, and gets warnings and
// errors only.
enum class LogTarget { kStandardError, kSystemLog, kBoth };

// `level`: trace, debug, info, warn, error, off. EINVAL for anything else. `program` names the process in each line.
// An exception that nobody catches ends the process with one line, too: that no thread can be started, above all.
Status set_up_log(std::string_view program, std::string_view level, LogTarget target);

namespace log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

// What is below is left out. set_up_log() sets it, too.
void set_level(Level level);

// Where lines go instead of the log that set_up_log() makes, if one is set: a library's host has a log of its own. It
// stays where it is for ever, and is called from any thread.
struct Sink {
  void (*line)(void* context, Level level, const char* text);
  void* context;
  Level level;  // what is below is left out
};
void set_sink(const Sink* sink);

// From any thread.
void line(Level level, fmt::string_view format, fmt::format_args arguments);

template <typename... T>
void debug(fmt::format_string<T...> format, T&&... arguments) {
  line(Level::kDebug, format, fmt::make_format_args(arguments...));
}
template <typename... T>
void info(fmt::format_string<T...> format, T&&... arguments) {
  line(Level::kInfo, format, fmt::make_format_args(arguments...));
}
template <typename... T>
void warn(fmt::format_string<T...> format, T&&... arguments) {
  line(Level::kWarning, format, fmt::make_format_args(arguments...));
}
template <typename... T>
void error(fmt::format_string<T...> format, T&&... arguments) {
  line(Level::kError, format, fmt::make_format_args(arguments...));
}

}  // namespace log

}  // namespace brickfs
