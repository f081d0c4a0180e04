// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/mount_target.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "fs/mount/status/brickfs_end.h"

namespace brickfs {

bool is_source(const std::string& text) {
  return text.find(':') != text.npos && !std::filesystem::path(text).is_absolute();
}

std::optional<MountEntry> find_mount_of_path(const std::string& text) {
  std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  for (;;) {
    if (auto entry = find_mount_at(path.string())) return entry;
    if (path == path.root_path()) return std::nullopt;
    path = path.parent_path();
  }
}

Result<MountState> ask_mount(const std::string& path, std::string* why) {
  const auto entry = find_mount_of_path(path);
  if (!entry || entry->type != "fuse.brickfs") {
    *why = "is not on a brickfs mount";
    return Error(EINVAL, "a mount");
  }
  BrickfsEnd brickfs(entry->device);
  if (brickfs.gone()) {
    const bool root = geteuid() == 0;
    *why = root ? "nobody answers for that mount: brickctl explain says more" : "a mount tells root only";
    return Error(root ? ENOTCONN : EACCES, "a mount");
  }
  auto state = brickfs.ask_state(kMountAnswers);
  if (state) return std::move(*state);
  *why = "brickfs does not answer: brickctl explain says more";
  return Error(ETIMEDOUT, "a mount");
}

}  // namespace brickfs
