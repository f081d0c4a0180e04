// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/mount_table.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/statfs.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>

namespace brickfs {

namespace {

// Of a list with commas.
bool has_word(const std::string& list, std::string_view word) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

// "name=1234", in a list with commas.
std::optional<uint32_t> number_of(const std::string& list, std::string_view name) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) {
    uint32_t number = 0;
    if (one.starts_with(name) &&
        std::from_chars(one.data() + name.size(), one.data() + one.size(), number).ec == std::errc())
      return number;
  }
  return std::nullopt;
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// Space, tab, line end and backslash are written as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// "36 35 98:0 /root /mountpoint options optional-fields... - type source super-options"
std::optional<MountEntry> parse_line(const std::string& line) {
  std::istringstream fields(line);
  std::string id;
  std::string parent;
  std::string field;
  std::string options;
  std::string all_options;
  MountEntry entry;
  if (!(fields >> id >> parent >> entry.device >> entry.root >> entry.mountpoint >> options)) return std::nullopt;
  while (fields >> field && field != "-") {
  }
  if (!(fields >> entry.type >> entry.source >> all_options)) return std::nullopt;
  entry.read_only = has_word(options, "ro") || has_word(all_options, "ro");
  entry.no_atime = has_word(options, "noatime");
  entry.user = number_of(all_options, "user_id=");
  entry.group = number_of(all_options, "group_id=");
  entry.mountpoint = unescape(entry.mountpoint);
  entry.source = unescape(entry.source);
  return entry;
}

}  // namespace

std::vector<MountEntry> all_mounts() {
  std::ifstream lines("/proc/self/mountinfo");
  std::vector<MountEntry> mounts;
  for (std::string line; std::getline(lines, line);) {
    if (auto entry = parse_line(line)) mounts.push_back(std::move(*entry));
  }
  return mounts;
}

std::vector<MountEntry> find_mounts_of(std::string_view device) {
  std::vector<MountEntry> mounts = all_mounts();
  std::erase_if(mounts, [device](const MountEntry& entry) { return entry.device != device; });
  return mounts;
}

std::optional<MountEntry> find_mount_at(std::string_view path) {
  std::optional<MountEntry> found;
  for (MountEntry& entry : all_mounts()) {
    if (entry.mountpoint == path) found = std::move(entry);
  }
  return found;
}

// Attributes may come from the kernel's cache, these figures never do.
// ECONNABORTED, ECANCELED (over io_uring): it died while we asked; the kernel takes a moment to find out.
// "SRC=source TARGET=mountpoint ROOT=/ OPTS=options", in any order.
std::vector<std::string> options_in_utab(std::string_view source, std::string_view mountpoint) {
  const std::string options_key = "OPTS=";
  std::ifstream lines("/run/mount/utab");
  std::vector<std::string> lists;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    int same = 0;
    std::string options;
    for (std::string field; fields >> field;) {
      const std::string text = unescape(field);
      if (text.starts_with(options_key)) options = text.substr(options_key.size());
      if (text == fmt::format("SRC={}", source) || text == fmt::format("TARGET={}", mountpoint)) ++same;
    }
    if (same == 2) lists.push_back(std::move(options));
  }
  return lists;
}

bool is_dead_mount(const std::string& path) {
  struct statfs figures {};
  return statfs(path.c_str(), &figures) != 0 && (errno == ENOTCONN || errno == ECONNABORTED || errno == ECANCELED);
}

TouchPermission::TouchPermission(std::string mountpoint, std::string device)
    : mountpoint_(std::move(mountpoint)),
      device_(std::move(device)),
      table_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)) {
  const MutexLock lock(mutex_);
  look();
}

// If another lies over it, or it has been detached, it stays as it was.
void TouchPermission::look() {
  const auto entry = find_mount_at(mountpoint_);
  if (entry && entry->device == device_) may_touch_ = !entry->read_only && !entry->no_atime;
}

// proc_pid_mountinfo(5): POLLPRI after each change, once.
bool TouchPermission::may_touch() {
  MutexLock lock(mutex_);
  pollfd table{.fd = table_.get(), .events = POLLPRI, .revents = 0};
  if (poll(&table, 1, 0) > 0) look();
  return may_touch_;
}

uint64_t waiting_requests(const std::string& device) {
  uint64_t requests = 0;
  std::ifstream("/sys/fs/fuse/connections/" + device.substr(device.find(':') + 1) + "/waiting") >> requests;
  return requests;
}

}  // namespace brickfs
