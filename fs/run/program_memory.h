// SPDX-License-Identifier: Apache-2.0
// Bytes between a queue's buffer and the program's memory, which may not be there: then nothing is copied, and the
// kernel is left to say so. It is looked at first, which is less than a third of what the kernel takes for a copy of
// few bytes. A thread that takes memory away in which another one reads at that moment ends the program, where the
// kernel might say EFAULT.
//
// Threads: any, also in signal handlers.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace brickfs::run {

// The first `length` bytes of all parts together, which have so many.
bool copy_from_program(std::span<const iovec> parts, std::byte* to, size_t length);
bool copy_to_program(std::span<const iovec> parts, const std::byte* from, size_t length);

}  // namespace brickfs::run
