// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/mount_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "fs/mount/status/brickfs_end.h"
#include "fs/mount/status/without_mount.h"

namespace brickfs {

namespace {

std::optional<MountEntry> find_mount_of_path(const std::string& text) {
  std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  for (;;) {
    if (auto entry = find_mount_at(path.string())) return entry;
    if (path == path.root_path()) return std::nullopt;
    path = path.parent_path();
  }
}

Error refuse(std::string* why, int code, std::string text) {
  *why = std::move(text);
  return Error(code, "a mount");
}

constexpr const char* kRootOnly = "a mount tells root only";

// One of a name that several have is to be named by its process.
Result<MountEntry> find_without_mount(const std::string& text, std::string* why) {
  if (geteuid() != 0) return refuse(why, EACCES, kRootOnly);
  std::vector<std::string> names = names_without_mount();
  std::erase_if(names, [&](const std::string& name) {
    return (text != kNoMountpoint && text != name) || BrickfsEnd(name).gone();
  });
  if (names.empty()) return refuse(why, EINVAL, "no such brickfs here serves a volume without a mount");
  if (names.size() > 1)
    return refuse(why, EINVAL, fmt::format("several serve a volume without a mount: {}", fmt::join(names, ", ")));
  MountEntry entry;
  entry.device = entry.mountpoint = names.front();
  entry.user = 0;
  return entry;
}

}  // namespace

bool is_source(const std::string& text) {
  return text.find(':') != text.npos && !std::filesystem::path(text).is_absolute() && !is_name_without_mount(text);
}

Result<MountEntry> find_brickfs(const std::string& text, std::string* why) {
  if (is_name_without_mount(text)) return find_without_mount(text, why);
  auto entry = find_mount_of_path(text);
  if (!entry || entry->type != "fuse.brickfs") return refuse(why, EINVAL, "is not on a brickfs mount");
  return std::move(*entry);
}

Result<MountState> ask_mount(const std::string& text, std::string* why) {
  const MountEntry entry = TRY(find_brickfs(text, why));
  BrickfsEnd brickfs(entry.device);
  if (brickfs.gone()) {
    const bool root = geteuid() == 0;
    return refuse(why, root ? ENOTCONN : EACCES,
                  root ? "nobody answers for that mount: brickctl explain says more" : kRootOnly);
  }
  auto state = brickfs.ask_state(kMountAnswers);
  if (state) return std::move(*state);
  return refuse(why, ETIMEDOUT, "brickfs does not answer: brickctl explain says more");
}

}  // namespace brickfs
