// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_oracle.h"

#include <fmt/compile.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

namespace brickfs {
namespace {

class Snapshooter {
 public:
  explicit Snapshooter(Filesystem& filesystem) : filesystem_(filesystem) {}

  TreeSnapshot run() {
    const auto root = filesystem_.get_attributes(kRootIno);
    if (!root.ok()) {
      fail("/", root.error());
    } else {
      add("/", *root);
      directory(kRootIno, "/");
    }
    return std::move(snapshot_);
  }

 private:
  void fail(const std::string& path, Error error) {
    if (snapshot_.error.empty()) snapshot_.error = fmt::format("{}: {} (errno {})", path, error.what(), error.code());
  }

  void directory(Ino ino, const std::string& path) {
    std::vector<std::string> names;
    const Status status = filesystem_.read_directory(ino, 0, false, [&names](const DirectoryEntry& entry) {
      if (entry.name != "." && entry.name != "..") names.emplace_back(entry.name);
      return true;
    });
    if (!status.ok()) return fail(path, status.error());
    for (const std::string& name : names) {
      const auto found = filesystem_.lookup(ino, name);
      if (!found.ok()) return fail(path + name, found.error());
      add(path + name, *found);
      if (S_ISDIR(found->mode)) directory(found->ino, path + name + "/");
      filesystem_.forget(found->ino, 1);
    }
  }

  void add(const std::string& path, const Attributes& found) {
    TreeSnapshot::File file;
    file.ino = found.ino;
    file.attributes = fmt::format(
        FMT_COMPILE("mode {:o} links {} owner {}:{} size {} blocks {} mtime {} ctime {} btime {}"), found.mode,
        found.nlink, found.uid, found.gid, found.size_bytes, found.blocks_512, static_cast<int64_t>(found.mtime),
        static_cast<int64_t>(found.ctime), static_cast<int64_t>(found.btime));
    if (S_ISLNK(found.mode)) {
      const auto target = filesystem_.read_symlink(found.ino);
      if (!target.ok()) return fail(path, target.error());
      file.attributes += " to " + *target;
    }
    if (S_ISREG(found.mode)) {
      file.contents.resize(found.size_bytes);
      const LocalSlice into{reinterpret_cast<std::byte*>(file.contents.data()), static_cast<uint32_t>(found.size_bytes),
                            0};
      const auto bytes =
          found.size_bytes == 0 ? Result<uint64_t>(0) : filesystem_.read(found.ino, 0, std::span(&into, 1));
      if (!bytes.ok() || *bytes != found.size_bytes)
        return fail(path, bytes.ok() ? Error(EIO, "short read") : bytes.error());
    }
    add_xattrs(path, found.ino, file);
    snapshot_.files.emplace(path, std::move(file));
  }

  void add_xattrs(const std::string& path, Ino ino, TreeSnapshot::File& file) {
    Caller administrator;
    administrator.is_administrator = [] { return true; };
    const auto names = filesystem_.list_xattr(ino, administrator);
    if (!names.ok()) return fail(path, names.error());
    const std::string_view all(reinterpret_cast<const char*>(names->data()), names->size());
    for (size_t at = 0; at < all.size();) {
      const std::string_view name = all.substr(at, all.find('\0', at) - at);
      at += name.size() + 1;
      const auto value = filesystem_.get_xattr(ino, name);
      if (!value.ok()) return fail(path, value.error());
      file.attributes += fmt::format(" {}=", name);
      file.attributes.append(reinterpret_cast<const char*>(value->data()), value->size());
    }
  }

  Filesystem& filesystem_;
  TreeSnapshot snapshot_;
};

const TreeSnapshot::File* file_of(const TreeSnapshot& snapshot, Ino ino) {
  for (const auto& [path, file] : snapshot.files) {
    if (file.ino == ino) return &file;
  }
  return nullptr;
}

// True if each byte is that after operation `k`, or one that a later operation wrote over it in place: the file never
// ended before it in between.
bool contents_fit(std::span<const TreeSnapshot> history, size_t k, size_t high, const TreeSnapshot::File& expected,
                  const std::string& found) {
  if (found == expected.contents) return true;
  if (found.size() != expected.contents.size()) return false;
  std::vector<size_t> wrong;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected.contents[i]) wrong.push_back(i);
  }
  for (size_t j = k + 1; j <= high && !wrong.empty(); ++j) {
    const TreeSnapshot::File* later = file_of(history[j], expected.ino);
    if (later == nullptr) break;
    if (std::ranges::any_of(wrong, [&](size_t i) { return i >= later->contents.size(); })) return false;
    std::erase_if(wrong, [&](size_t i) { return found[i] == later->contents[i]; });
  }
  return wrong.empty();
}

std::string compare(std::span<const TreeSnapshot> history, size_t k, size_t high, const TreeSnapshot& found) {
  const TreeSnapshot& expected = history[k];
  for (const auto& [path, file] : expected.files) {
    const auto at = found.files.find(path);
    if (at == found.files.end()) return fmt::format("{} is missing", path);
    if (at->second.ino != file.ino)
      return fmt::format("{} is inode {}, not {}", path, raw(at->second.ino), raw(file.ino));
    if (at->second.attributes != file.attributes)
      return fmt::format("{} has [{}], not [{}]", path, at->second.attributes, file.attributes);
    if (!contents_fit(history, k, high, file, at->second.contents)) {
      const auto differ = std::ranges::mismatch(at->second.contents, file.contents);
      return fmt::format("{} has other bytes, from {} on", path, differ.in1 - at->second.contents.begin());
    }
  }
  for (const auto& [path, file] : found.files) {
    if (!expected.files.contains(path)) return fmt::format("{} is there", path);
  }
  return "";
}

}  // namespace

TreeSnapshot take_snapshot(Filesystem& filesystem) { return Snapshooter(filesystem).run(); }

std::string difference(const TreeSnapshot& expected, const TreeSnapshot& found) {
  if (!found.error.empty()) return found.error;
  return compare(std::span(&expected, 1), 0, 0, found);
}

std::string judge_failed(const TreeSnapshot& before, const TreeSnapshot& intended, const TreeSnapshot& found) {
  if (!found.error.empty()) return found.error;
  const TreeSnapshot history[] = {before, intended};
  return compare(history, 0, 1, found);
}

std::string judge(std::span<const TreeSnapshot> history, size_t low, size_t high, const TreeSnapshot& found) {
  if (!found.error.empty()) return found.error;
  std::string why;
  for (size_t k = high + 1; k-- > low;) {
    const std::string text = compare(history, k, high, found);
    if (text.empty()) return "";
    why += fmt::format("{}after {} operations: {}", why.empty() ? "" : "; ", k, text);
  }
  return "the tree is none that the operations made: " + why;
}

}  // namespace brickfs
