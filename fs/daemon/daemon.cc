// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <utility>

#include "transport/base/log.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

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

namespace {

constexpr int kScore = -500;  // of -1000 to 1000: before it goes who takes half of the memory or less
constexpr const char* kScorePath = "/proc/self/oom_score_adj";

}  // namespace

void prepare_for_memory_shortage() {
  if (::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) log::debug("PR_SET_IO_FLUSHER is not allowed here");
  int score = 0;
  if (!(std::ifstream(kScorePath) >> score) || score != 0) return;
  std::ofstream file(kScorePath);
  file << kScore << std::flush;
  if (!file) log::debug("oom_score_adj cannot be lowered here");
}

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

bool is_readable(int a, int b, std::chrono::milliseconds timeout) {
  std::array<pollfd, 2> fds = {pollfd{a, POLLIN, 0}, pollfd{b, POLLIN, 0}};
  return poll(fds.data(), fds.size(), static_cast<int>(timeout.count())) > 0;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace brickfs
