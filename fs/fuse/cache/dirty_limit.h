// SPDX-License-Identifier: Apache-2.0
// How much of a FUSE mount the kernel may have in its page cache and not written back. It holds itself to that
// (strictly, for FUSE): 1 % of what it may have of all file systems, unless an administrator says otherwise. Source:
// Documentation/ABI/testing/sysfs-class-bdi.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace brickfs {

constexpr const char* kBdiSettings = "/sys/class/bdi";

// This kernel says so (Linux 6.2 and later). `directory`: of the settings.
bool tells_dirty_limit(const std::string& directory = kBdiSettings);
// In bytes, of the mounted file system with that device number ("MAJOR:MINOR"). None: it does not say, or does not hold
// itself to it.
std::optional<uint64_t> read_dirty_limit(const std::string& device, const std::string& directory = kBdiSettings);
// Best effort: only root may. What it is then.
std::optional<uint64_t> set_dirty_limit(const std::string& device, uint64_t bytes,
                                        const std::string& directory = kBdiSettings);

}  // namespace brickfs
