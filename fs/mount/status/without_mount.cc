// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/without_mount.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "fs/mount/status/mount_state.h"

namespace brickfs {
namespace {

bool has_pid(std::string_view text) {
  return text.size() > kNoMountpoint.size() && text.starts_with(kNoMountpoint) && text[kNoMountpoint.size()] == ':';
}

}  // namespace

std::string name_without_mount(pid_t pid) { return fmt::format("{}:{}", kNoMountpoint, pid); }

bool is_name_without_mount(std::string_view text) { return text == kNoMountpoint || has_pid(text); }

std::vector<std::string> names_without_mount() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(kUmountDirectory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (has_pid(name)) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace brickfs
