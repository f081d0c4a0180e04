// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/interrupt/thread_status.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

constexpr uint32_t kNobodyTold = UINT32_MAX;  // FUSE_INVALID_UIDGID

// A thread that ends between open() and read() is an error of the latter (ESRCH), of which streams make exceptions.
std::string file_of_thread(uint32_t thread, std::string_view name) {
  if (thread == 0) return {};
  const UniqueFd file(::open(fmt::format("/proc/{}/{}", thread, name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t bytes = 0; file && (bytes = ::read(file.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<size_t>(bytes));
  }
  return text;
}

}  // namespace

std::string thread_status(uint32_t thread) { return file_of_thread(thread, "status"); }

bool is_exiting(uint32_t thread) { return tells_of_exiting(file_of_thread(thread, "stat")); }

// proc_pid_stat(5): the ninth field; the second is a name in parentheses, which may have any others in it.
bool tells_of_exiting(std::string_view stat) {
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING of include/linux/sched.h
  std::istringstream fields{std::string(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)))};
  std::string state;
  uint64_t flags = 0;
  int64_t parent = 0, group = 0, session = 0, terminal = 0, foreground = 0;
  fields >> state >> parent >> group >> session >> terminal >> foreground >> flags;
  return fields && (flags & kExiting) != 0;
}

std::string_view status_field(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    const std::string_view line = status.substr(0, status.find('\n'));
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      const std::string_view value = line.substr(name.size() + 1);
      return value.substr(std::min(value.size(), value.find_first_not_of(" \t")));
    }
    status.remove_prefix(std::min(status.size(), line.size() + 1));
  }
  return {};
}

uint64_t status_bits(std::string_view status, std::string_view name) {
  const std::string_view value = status_field(status, name);
  uint64_t bits = 0;
  std::from_chars(value.data(), value.data() + value.size(), bits, 16);
  return bits;
}

// The last of four: real, effective, saved, of file systems.
std::optional<uint32_t> status_id(std::string_view status, std::string_view name) {
  std::istringstream ids{std::string(status_field(status, name))};
  uint32_t id = 0;
  for (int i = 0; i < 4; ++i) ids >> id;
  return ids ? std::optional(id) : std::nullopt;
}

std::optional<uint32_t> user_of(uint32_t uid, uint32_t thread) {
  return uid != kNobodyTold ? uid : status_id(thread_status(thread), "Uid");
}

bool shares_user_namespace(uint32_t thread) {
  struct stat ours {
  }, its{};
  if (::stat("/proc/self/ns/user", &ours) != 0) return true;
  if (::stat(fmt::format("/proc/{}/ns/user", thread).c_str(), &its) != 0) return true;
  return ours.st_dev == its.st_dev && ours.st_ino == its.st_ino;
}

}  // namespace brickfs
