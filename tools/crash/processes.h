// SPDX-License-Identifier: Apache-2.0
// The explorers' work shared out among processes, each with threads of its own that it schedules
// (tools/crash/fibers.h), and what they count together.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <new>

#include "transport/base/check.h"

namespace brickfs {

// A T, of atomics, that processes made from now on share. For good.
template <typename T>
T& make_shared_by_processes() {
  void* const memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return *new (memory) T;
}

// `work` in each of so many processes, by their numbers from 0 on, to their end. Returns how many could not do it: they
// aborted, or hung.
uint64_t run_in_processes(uint64_t processes, const std::function<void(uint64_t number)>& work);

}  // namespace brickfs
