// SPDX-License-Identifier: Apache-2.0
#include "fs/library/path_walk.h"

#include <limits.h>

#include <algorithm>
#include <cstring>

namespace brickfs::library {
namespace {

constexpr int kMostLinks = 40;  // as Linux has it

}  // namespace

Result<InodeRef> LastName::root() const { return InodeRef(files_, TRY(files_.lookup(kRootIno, "."))); }

Status LastName::find(const char* path) {
  rest_ = std::string_view(path, strnlen(path, PATH_MAX));
  if (rest_.empty()) return Error(ENOENT, "an empty path");
  if (rest_.size() == PATH_MAX) return Error(ENAMETOOLONG, "the path is too long");
  at_ = TRY(root());
  return go();
}

// Up to the last name, from where we are.
Status LastName::go() {
  for (;;) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of('/'), rest_.size()));
    const size_t length = std::min(rest_.find('/'), rest_.size());
    name_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    slash_ = !rest_.empty() || name_.empty();
    if (rest_.find_first_not_of('/') == rest_.npos) return {};
    InodeRef next(files_, TRY(files_.lookup(at_.ino(), name_)));
    if (next.is_link()) {
      TRY(enter(next));
    } else if (next.is_directory()) {
      at_ = std::move(next);
    } else {
      return Error(ENOTDIR, "not a directory");
    }
  }
}

// The link's target takes its place before the rest.
Status LastName::enter(const InodeRef& link) {
  if (++links_ > kMostLinks) return Error(ELOOP, "too many symbolic links");
  std::string text = TRY(files_.read_symlink(link.ino()));
  if (text.empty()) return Error(ENOENT, "an empty link");
  if (text.starts_with('/')) at_ = TRY(root());
  text += rest_;
  if (text.size() >= 2 * PATH_MAX) return Error(ENAMETOOLONG, "the path is too long");
  text_ = std::move(text);
  rest_ = text_;
  return {};
}

Status LastName::follow(const InodeRef& link) {
  TRY(enter(link));
  return go();
}

Result<InodeRef> LastName::lookup() const {
  if (is_root()) return InodeRef(files_, TRY(files_.lookup(at_.ino(), ".")));
  InodeRef found(files_, TRY(files_.lookup(at_.ino(), name_)));
  if (slash_ && !found.is_directory() && !found.is_link()) return Error(ENOTDIR, "not a directory");
  return found;
}

Result<InodeRef> resolve(FileOperations& files, const char* path, Follow follow) {
  LastName last(files);
  TRY(last.find(path));
  for (;;) {
    InodeRef found = TRY(last.lookup());
    if (!found.is_link() || (follow == Follow::kNotLast && !last.ends_with_slash())) return found;
    TRY(last.follow(found));
  }
}

}  // namespace brickfs::library
