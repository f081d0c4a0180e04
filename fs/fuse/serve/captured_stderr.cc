// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/captured_stderr.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <sstream>

namespace brickfs {
namespace {

std::string read_from_start(int fd) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = pread(fd, part.data(), part.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(part.data(), static_cast<size_t>(bytes));
  }
  return text;
}

}  // namespace

CapturedStderr::CapturedStderr()
    : kept_(memfd_create("standard error", MFD_CLOEXEC)), standard_error_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
  if (kept_ && standard_error_) dup2(kept_.get(), STDERR_FILENO);
}

std::string CapturedStderr::take(std::string_view program) {
  std::string last;
  if (!kept_ || !standard_error_) return last;
  dup2(standard_error_.get(), STDERR_FILENO);
  std::istringstream lines(read_from_start(kept_.get()));
  kept_.reset();
  const std::string start = std::string(program) + ": ";
  for (std::string line; std::getline(lines, line);) {
    if (!program.empty() && line.starts_with(start)) {
      last = line.substr(start.size());
    } else {
      line.push_back('\n');
      (void)!::write(STDERR_FILENO, line.data(), line.size());
    }
  }
  return last;
}

}  // namespace brickfs
