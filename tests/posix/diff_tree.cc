// SPDX-License-Identifier: Apache-2.0
// A whole tree as text. As root, without following symbolic links, and without opening devices.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

constexpr time_t kLongAgo = 1'200'000'000;  // a test set the time
constexpr size_t kBlock = 4096;

std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  DIR* stream = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return {"cannot be listed: " + std::to_string(errno)};
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

// Blocks that are not all zero, with their places.
std::string contents_of(int file) {
  std::vector<char> buffer(256 * kBlock);
  const std::vector<char> zeros(kBlock);
  std::string digests;
  for (off_t at = 0;;) {
    const ssize_t got = pread(file, buffer.data(), buffer.size(), at);
    if (got < 0) return "cannot be read: " + std::to_string(errno);
    if (got == 0) break;
    for (size_t block = 0; block < static_cast<size_t>(got); block += kBlock) {
      const size_t bytes = std::min(kBlock, static_cast<size_t>(got) - block);
      if (std::equal(zeros.begin(), zeros.begin() + static_cast<ssize_t>(bytes),
                     buffer.begin() + static_cast<ssize_t>(block)))
        continue;
      digests += std::to_string(static_cast<size_t>(at) + block) + "=" + digest(buffer.data() + block, bytes) + ",";
    }
    at += got;
  }
  return digests.size() > 200 ? digest(digests.data(), digests.size()) : digests;
}

std::string data_map_of(int file) {
  std::string map;
  for (off_t hole = 0;;) {
    const off_t data = lseek(file, hole, SEEK_DATA);
    if (data < 0) break;
    hole = lseek(file, data, SEEK_HOLE);
    map += " " + std::to_string(data) + "-" + std::to_string(hole);
    if (hole <= data) return map + " which is nonsense";
  }
  return map;
}

std::string xattrs_of(const std::string& path) {
  std::vector<char> names(70000);
  const ssize_t bytes = llistxattr(path.c_str(), names.data(), names.size());
  if (bytes < 0) return "cannot be listed: " + std::to_string(errno);
  std::vector<std::string> lines;
  for (ssize_t at = 0; at < bytes;) {
    const std::string name = names.data() + at;
    at += static_cast<ssize_t>(name.size()) + 1;
    std::vector<char> value(70000);
    const ssize_t length = lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    lines.push_back(name + "=" +
                    (length < 0 ? std::to_string(-errno) : digest(value.data(), static_cast<size_t>(length))));
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += " " + line;
  return all;
}

class Description {
 public:
  Description(bool strict_holes) : strict_holes_(strict_holes) {}

  void add_directory(int directory, const std::string& path) {
    add_entry(directory, "", path);
    for (const std::string& name : names_in(directory)) {
      const std::string below = path + "/" + name;
      const bool is_directory = add_entry(directory, name, below);
      if (!is_directory) continue;
      const int child = openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (child < 0) {
        text_ += "cannot be opened: " + std::to_string(errno) + "\n";
        continue;
      }
      add_directory(child, below);
      close(child);
    }
  }
  const std::string& text() const { return text_; }

 private:
  // True: a directory.
  bool add_entry(int directory, const std::string& name, const std::string& path) {
    struct stat stat {};
    if (fstatat(directory, name.c_str(), &stat, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0) {
      text_ += path + " cannot be looked at: " + std::to_string(errno) + "\n";
      return false;
    }
    const bool is_directory = S_ISDIR(stat.st_mode);
    text_ += path + "\t" + octal(stat.st_mode) + " nlink " + std::to_string(stat.st_nlink) + " owner " +
             std::to_string(stat.st_uid) + ":" + std::to_string(stat.st_gid);
    if (!is_directory)
      text_ +=
          " size " + std::to_string(stat.st_size) + " first " + numbers_.try_emplace(stat.st_ino, path).first->second;
    if (S_ISCHR(stat.st_mode) || S_ISBLK(stat.st_mode)) text_ += " device " + std::to_string(stat.st_rdev);
    if (stat.st_mtim.tv_sec < kLongAgo && !S_ISFIFO(stat.st_mode))  // docs/posix.md
      text_ += " mtime " + std::to_string(stat.st_mtim.tv_sec) + "." + std::to_string(stat.st_mtim.tv_nsec);
    if (!name.empty() && !is_directory) add_contents(directory, name, stat.st_mode);
    const std::string here = "/proc/self/fd/" + std::to_string(directory) + "/" + (name.empty() ? "." : name);
    text_ += xattrs_of(here) + "\n";
    return is_directory;
  }

  void add_contents(int directory, const std::string& name, mode_t mode) {
    if (S_ISLNK(mode)) {
      char target[4200] = {};
      if (readlinkat(directory, name.c_str(), target, sizeof(target) - 1) >= 0) text_ += std::string(" -> ") + target;
    }
    if (!S_ISREG(mode)) return;
    const int file = openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) {
      text_ += " cannot be opened: " + std::to_string(errno);
      return;
    }
    if (strict_holes_) text_ += " data" + data_map_of(file);
    text_ += " contents " + contents_of(file);
    close(file);
  }

  static std::string octal(mode_t mode) {
    char text[16];
    snprintf(text, sizeof(text), "%06o", mode);
    return text;
  }

  const bool strict_holes_;
  std::string text_;
  std::map<ino_t, std::string> numbers_;  // the first path of each file
};

}  // namespace

std::string describe_tree(int root, bool strict_holes) {
  Description description(strict_holes);
  description.add_directory(root, ".");
  return description.text();
}

void remove_tree_contents(int root) {
  for (const std::string& name : names_in(root)) {
    if (unlinkat(root, name.c_str(), 0) == 0) continue;
    const int child = openat(root, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child < 0) continue;
    remove_tree_contents(child);
    close(child);
    unlinkat(root, name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace brickfs::posix
