// SPDX-License-Identifier: Apache-2.0
// How severe a line on standard error is, for the journal that systemd connects it to: sd-daemon(3), systemd.exec(5).
#pragma once

#include <string_view>

#include "transport/base/log.h"

namespace brickfs {

// "<4>" before a line, or nothing where standard error is not the journal's. From any thread.
std::string_view journal_prefix(log::Level level);

// A line on standard error by a program that ends, or has no log.
void print_error(std::string_view line);

}  // namespace brickfs
