// SPDX-License-Identifier: Apache-2.0
// How many requests of a mount the kernel has, sent or not, that are not answered.
#pragma once

#include <cstdint>
#include <string>

namespace brickfs {

// Of the mount with that device number ("0:57"). 0 also where nobody tells: without /sys/fs/fuse.
uint64_t waiting_requests(const std::string& device);

}  // namespace brickfs
