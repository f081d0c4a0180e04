// SPDX-License-Identifier: Apache-2.0
// The mount of this host that a command is about.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "fs/mount/status/mount_state.h"
#include "fs/mount/status/mount_table.h"
#include "transport/base/result.h"

namespace brickfs {

// Whether what a command was given is a source, and not a path.
bool is_source(const std::string& text);
// The mount that has this path, told without touching it, since it may not answer.
std::optional<MountEntry> find_mount_of_path(const std::string& text);

constexpr std::chrono::milliseconds kMountAnswers{2'000};  // when it is well

// The state of the brickfs mount that has this path; else one line in `why`. EACCES: it tells root only.
Result<MountState> ask_mount(const std::string& path, std::string* why);

}  // namespace brickfs
