// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/daemon.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace brickfs {
namespace {

// What the child writes: its exit code as one byte, then the line.
Daemon::Outcome read_outcome(int from, pid_t child) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = read(from, part.data(), part.size())) != 0;) {
    if (bytes > 0) {
      text.append(part.data(), static_cast<size_t>(bytes));
    } else if (errno != EINTR) {
      break;
    }
  }
  if (!text.empty()) return {.exit_code = text[0], .line = text.substr(1)};
  int status = 0;
  waitpid(child, &status, 0);
  return {.exit_code = 1, .line = "ended before anything was mounted"};
}

}  // namespace

Result<std::optional<Daemon::Outcome>> Daemon::fork_and_wait() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("pipe");
  const UniqueFd from_child(ends[0]);
  to_parent_.reset(ends[1]);
  const pid_t child = fork();
  if (child < 0) return errno_error("fork");
  if (child == 0) return std::optional<Outcome>();
  to_parent_.reset();
  return std::optional<Outcome>(read_outcome(from_child.get(), child));
}

void Daemon::tell_ready(std::string line) {
  setsid();
  (void)!chdir("/");
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.get(), standard);
  tell({.exit_code = 0, .line = std::move(line)});
}

void Daemon::tell(const Outcome& outcome) {
  const std::string text = static_cast<char>(outcome.exit_code) + outcome.line;
  (void)!::write(to_parent_.get(), text.data(), text.size());
  to_parent_.reset();
}

}  // namespace brickfs
