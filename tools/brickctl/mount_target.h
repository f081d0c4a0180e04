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
// The brickfs mount that has this path, told without touching it, since it may not answer. Or, of `none` and none:PID,
// the brickfs that mounts nothing (fs/mount/status/without_mount.h): `device` is what its socket is called,
// `mountpoint` its name, and there is no source. EINVAL, EACCES: it tells root only; with one line in `why`.
Result<MountEntry> find_brickfs(const std::string& text, std::string* why);

constexpr std::chrono::milliseconds kMountAnswers{2'000};  // when it is well

// The state of the brickfs that find_brickfs() finds; else one line in `why`. EACCES: it tells root only.
Result<MountState> ask_mount(const std::string& text, std::string* why);

}  // namespace brickfs
