// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/file_size_limit.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

namespace brickfs {

bool FileSizeLimit::allows(uint64_t end) {
  rlimit64 limit{};
  if (process_ == 0) return false;
  if (::prlimit64(process_, RLIMIT_FSIZE, nullptr, &limit) == 0) return end <= limit.rlim_cur;
  const auto read_limit = errno == EPERM ? read() : Error(ESRCH, "whose limit it is");
  return read_limit.ok() && end <= *read_limit;
}

// For want of CAP_SYS_RESOURCE, which containers seldom have, the kernel does not say it of another user's process. But
// anybody may read it.
Result<uint64_t> FileSizeLimit::read() {
  if (!limits_) limits_ = UniqueFd(::open(fmt::format("/proc/{}/limits", process_).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> bytes;
  const ssize_t count = limits_ ? ::pread(limits_.get(), bytes.data(), bytes.size(), 0) : -1;
  if (count < 0) return errno_error("the limits of a process");
  const std::string_view text(bytes.data(), static_cast<size_t>(count));
  constexpr std::string_view kName = "Max file size";
  const size_t name = text.find(kName);
  if (name == std::string_view::npos) return Error(EPROTO, "the limits of a process");
  std::string_view value = text.substr(name + kName.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  if (value.starts_with("unlimited")) return UINT64_MAX;
  uint64_t limit = 0;
  const auto parsed = std::from_chars(value.begin(), value.end(), limit);
  if (parsed.ec != std::errc()) return Error(EPROTO, "the limits of a process");
  return limit;
}

}  // namespace brickfs
