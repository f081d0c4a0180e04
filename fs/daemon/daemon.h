// SPDX-License-Identifier: Apache-2.0
// The process of a mount: its way to the background, its signals, and what it needs to live through.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

// Going to the background. The child does all the work and tells the waiting parent how it went; it opens the network
// only after the fork (a registered pool and its device do not survive one).
class Daemon {
 public:
  struct Outcome {
    int exit_code = 0;
    std::string line;  // for standard error, if not empty
  };

  // Returns twice: in the child with nothing, in the parent with the outcome once the child has told it (or has died).
  Result<std::optional<Outcome>> fork_and_wait();

  // In the child, once: the parent prints the line, if there is one, and exits with 0; from now on there is no
  // terminal, no working directory and no standard error.
  void tell_ready(std::string line = {});
  // In the child, instead: the parent prints the line and exits with the code.
  void tell_failure(const Outcome& outcome) { tell(outcome); }

 private:
  void tell(const Outcome& outcome);

  UniqueFd to_parent_;
};

// For a process that a file system depends on, before it has threads: allocations of memory do not wait for dirty pages
// of a file system to be written, which may be its own (prctl(2), PR_SET_IO_FLUSHER), and the kernel ends others first
// when there is none left (oom_score_adj, unless that was set by somebody). Where we may not, nothing happens.
void prepare_for_memory_shortage();

// SIGTERM and SIGINT. Before anything is mounted they end the process at once, which is as safe as a crash; after that
// they ask for a clean end. SIGHUP and SIGPIPE do nothing.
Status install_signals();
// From now on signals are only counted.
void defer_signals();
// Readable when a signal has come since the last take_signals().
int signals_fd();
void take_signals();

// Whether one of them can be read from, if need be after so long; and of one, now.
bool is_readable(int a, int b, std::chrono::milliseconds timeout);
bool is_readable(int fd);

}  // namespace brickfs
