// SPDX-License-Identifier: Apache-2.0
#include "fs/run/program_memory.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace brickfs::run {
namespace {

constexpr size_t kFewBytes = 16 * 1024;  // more the kernel copies in less time than it takes to look at each page
constexpr uintptr_t kPage = 4096;
constexpr size_t kMask = 8;  // the kernel's signal masks
constexpr int kNoSuchChange = 99;

// The kernel reads a signal mask there, and changes none.
bool can_read(uintptr_t at) {
  return syscall(SYS_rt_sigprocmask, kNoSuchChange, at, nullptr, kMask) == 0 || errno != EFAULT;
}

// The kernel writes the thread's signal mask there, over which the copy goes.
bool can_write(uintptr_t at) { return syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, at, kMask) == 0; }

// Of each page of these bytes the last ones.
template <typename Can>
bool is_there(const void* data, size_t bytes, Can can) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  if (begin > UINTPTR_MAX - kPage - bytes) return false;
  const uintptr_t end = begin + bytes;
  for (uintptr_t at = begin; at < end;) {
    at = std::min(end, (at | (kPage - 1)) + 1);
    if (!can(at - kMask)) return false;
  }
  return true;
}

// Calls `copy` with each part's memory and bytes, once all are there. False: they are not, or it is not known.
template <typename Can, typename Copy>
bool copy_few(std::span<const iovec> parts, size_t length, Can can, Copy copy) {
  const auto each = [&](auto act) {
    size_t left = length;
    for (const iovec& part : parts) {
      const size_t bytes = std::min(left, part.iov_len);
      left -= bytes;
      if (bytes > 0 && !act(part.iov_base, bytes)) return false;
    }
    return true;
  };
  // What begins less than a mask before a page's end has its first look before its beginning.
  const auto look = [can](void* data, size_t bytes) {
    const size_t in_page = kPage - reinterpret_cast<uintptr_t>(data) % kPage;
    return bytes >= kMask && in_page >= kMask && is_there(data, bytes, can);
  };
  return length <= kFewBytes && each(look) && each(copy);
}

bool kernel_copies(ssize_t copied, size_t length) { return copied == static_cast<ssize_t>(length); }

}  // namespace

bool copy_from_program(std::span<const iovec> parts, std::byte* to, size_t length) {
  std::byte* next = to;
  const auto copy = [&next](void* data, size_t bytes) {
    std::memcpy(next, data, bytes);
    next += bytes;
    return true;
  };
  if (copy_few(parts, length, can_read, copy)) return true;
  const iovec here{to, length};
  return kernel_copies(process_vm_readv(getpid(), &here, 1, parts.data(), parts.size(), 0), length);
}

bool copy_to_program(std::span<const iovec> parts, const std::byte* from, size_t length) {
  const std::byte* next = from;
  const auto copy = [&next](void* data, size_t bytes) {
    std::memcpy(data, next, bytes);
    next += bytes;
    return true;
  };
  if (copy_few(parts, length, can_write, copy)) return true;
  const iovec here{const_cast<std::byte*>(from), length};
  return kernel_copies(process_vm_writev(getpid(), &here, 1, parts.data(), parts.size(), 0), length);
}

}  // namespace brickfs::run
