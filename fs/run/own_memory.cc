// SPDX-License-Identifier: Apache-2.0
// Memory of this library: not from malloc(), which may be what a signal handler, in which we are called, has
// interrupted. It is for few and lasting things, so each has pages of its own.
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kBefore = 64;  // the length is noted before what is given out

void* allocate(size_t bytes) {
  const size_t length = bytes + kBefore;
  void* const memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();  // nothing is thrown through a program that may be C
  *static_cast<size_t*>(memory) = length;
  return static_cast<std::byte*>(memory) + kBefore;
}

void release(void* given) {
  if (given == nullptr) return;
  void* const memory = static_cast<std::byte*>(given) - kBefore;
  munmap(memory, *static_cast<size_t*>(memory));
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void* given) noexcept { release(given); }
void operator delete[](void* given) noexcept { release(given); }
void operator delete(void* given, size_t) noexcept { release(given); }
void operator delete[](void* given, size_t) noexcept { release(given); }
// Of what wants lines of the cache for itself, which pages begin with, and what is behind kBefore.
void* operator new(size_t bytes, std::align_val_t) { return allocate(bytes); }
void operator delete(void* given, std::align_val_t) noexcept { release(given); }
void operator delete(void* given, size_t, std::align_val_t) noexcept { release(given); }
