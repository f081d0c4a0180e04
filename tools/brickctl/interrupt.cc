// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/interrupt.h"

#include <signal.h>

#include <atomic>

namespace brickfs {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void set_flag(int) { flag.store(true, std::memory_order_relaxed); }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = set_flag;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // not SA_RESTART: a pause ends at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return flag.load(std::memory_order_relaxed); }

}  // namespace brickfs
