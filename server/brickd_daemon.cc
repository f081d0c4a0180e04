// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_daemon.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "transport/base/journal.h"
#include "transport/base/printable.h"

namespace brickfs {
namespace {

constexpr char kServing = '+';

// What the child writes: kServing, or a line for people.
[[noreturn]] void exit_as_reported(UniqueFd from_child) {
  std::string report;
  std::array<char, 512> buffer;
  while (true) {
    const ssize_t got = ::read(from_child.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    report.append(buffer.data(), static_cast<size_t>(got));
  }
  if (report == std::string(1, kServing)) std::_Exit(EXIT_SUCCESS);
  print_error("brickd: " + (report.empty() ? std::string("ended before it served") : printable(report)));
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

Result<Daemon> Daemon::start() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("pipe");
  UniqueFd from_child(ends[0]);
  UniqueFd to_parent(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return errno_error("fork");
  if (child > 0) {
    to_parent.reset();
    exit_as_reported(std::move(from_child));
  }
  ::setsid();
  return Daemon(std::move(to_parent));
}

void Daemon::serving() {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), standard);
  }
  [[maybe_unused]] const int changed = ::chdir("/");  // best effort: holds no file system busy
  [[maybe_unused]] const ssize_t written = ::write(to_parent_.get(), &kServing, 1);
  to_parent_.reset();
}

void Daemon::failed(const std::string& line) {
  [[maybe_unused]] const ssize_t written = ::write(to_parent_.get(), line.data(), line.size());
  to_parent_.reset();
}

}  // namespace brickfs
