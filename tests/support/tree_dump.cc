// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tree_dump.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <vector>

namespace brickfs {
namespace {

class TreeDump {
 public:
  explicit TreeDump(Filesystem& filesystem) : filesystem_(filesystem) {}

  std::string run() {
    dump_directory(kRootIno, "");
    return std::move(text_);
  }

 private:
  void dump_directory(Ino directory, const std::string& path) {
    std::map<std::string, uint8_t> names;
    const Status status = filesystem_.read_directory(directory, 0, false, [&names](const DirectoryEntry& entry) {
      if (entry.name != "." && entry.name != "..") names.emplace(entry.name, entry.type);
      return true;
    });
    if (!status.ok()) text_ += fmt::format("{}/: error {}\n", path, status.code());
    for (const auto& [name, type] : names) dump_entry(directory, name, path + "/" + name);
  }

  void dump_entry(Ino directory, const std::string& name, const std::string& path) {
    const auto found = filesystem_.lookup(directory, name);
    if (!found.ok()) {
      text_ += fmt::format("{}: error {}\n", path, found.code());
      return;
    }
    text_ += fmt::format("{} {:o} {} {}", path, found->mode, found->nlink, found->size_bytes);
    if (S_ISLNK(found->mode)) {
      const auto target = filesystem_.read_symlink(found->ino);
      text_ += target.ok() ? " -> " + *target : fmt::format(" error {}", target.code());
    }
    if (S_ISREG(found->mode)) text_ += " " + contents(*found);
    text_ += "\n";
    if (S_ISDIR(found->mode)) dump_directory(found->ino, path);
    filesystem_.forget(found->ino, 1);
  }

  // Long enough for the small files of tests; what is behind that only shows in the size.
  std::string contents(const Attributes& file) {
    std::string bytes(std::min<uint64_t>(file.size_bytes, 1 << 20), '?');
    const LocalSlice into{reinterpret_cast<std::byte*>(bytes.data()), static_cast<uint32_t>(bytes.size()), 0};
    if (bytes.empty()) return "";
    const auto read = filesystem_.read(file.ino, 0, std::span(&into, 1));
    if (!read.ok()) return fmt::format("error {}", read.code());
    if (*read != bytes.size()) return fmt::format("{} bytes only", *read);
    return fmt::format("{:x}", std::hash<std::string>()(bytes));
  }

  Filesystem& filesystem_;
  std::string text_;
};

}  // namespace

std::string dump_tree(Filesystem& filesystem) { return TreeDump(filesystem).run(); }

}  // namespace brickfs
