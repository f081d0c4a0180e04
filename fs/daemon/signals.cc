// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/signals.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace brickfs {
namespace {

// A handler reaches nothing but globals.
std::atomic<bool> deferred{false};
std::atomic<int> event{-1};

void on_signal(int number) {
  if (!deferred.load()) _exit(128 + number);
  const uint64_t one = 1;
  (void)!::write(event.load(), &one, sizeof(one));
}

}  // namespace

Status install_signals() {
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return errno_error("eventfd");
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  return {};
}

void defer_signals() { deferred = true; }

int signals_fd() { return event; }

void take_signals() {
  uint64_t count = 0;
  (void)!::read(event, &count, sizeof(count));
}

}  // namespace brickfs
