// SPDX-License-Identifier: Apache-2.0
#include "transport/base/journal.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace brickfs {
namespace {

// The variable outlives the connection: a child may have another standard error.
bool is_connected_to_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &status) == 0 &&
         fmt::format("{}:{}", status.st_dev, status.st_ino) == stream;
}

}  // namespace

std::string_view journal_prefix(log::Level level) {
  if (!is_connected_to_journal()) return {};
  switch (level) {
    case log::Level::kDebug:
      return "<7>";
    case log::Level::kInfo:
      return "<6>";
    case log::Level::kWarning:
      return "<4>";
    case log::Level::kError:
    case log::Level::kOff:
      break;
  }
  return "<3>";
}

void print_error(std::string_view line) { fmt::print(stderr, "{}{}\n", journal_prefix(log::Level::kError), line); }

}  // namespace brickfs
