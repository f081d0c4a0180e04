// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/mount_table.h"

#include <sys/statfs.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace brickfs {
namespace {

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
  std::string root;
  std::string field;
  MountEntry entry;
  if (!(fields >> id >> parent >> entry.device >> root >> entry.mountpoint)) return std::nullopt;
  while (fields >> field && field != "-") {
  }
  if (!(fields >> entry.type >> entry.source)) return std::nullopt;
  entry.mountpoint = unescape(entry.mountpoint);
  entry.source = unescape(entry.source);
  return entry;
}

}  // namespace

std::optional<MountEntry> find_mount_at(std::string_view path) {
  std::ifstream table("/proc/self/mountinfo");
  std::optional<MountEntry> found;
  for (std::string line; std::getline(table, line);) {
    auto entry = parse_line(line);
    if (entry && entry->mountpoint == path) found = std::move(entry);
  }
  return found;
}

// Attributes may come from the kernel's cache, these figures never do.
// ECONNABORTED: it died while we asked; over io_uring the kernel takes a moment to find out.
bool is_dead_mount(const std::string& path) {
  struct statfs figures {};
  return statfs(path.c_str(), &figures) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

}  // namespace brickfs
