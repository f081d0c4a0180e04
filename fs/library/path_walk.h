// SPDX-License-Identifier: Apache-2.0
// Paths, as path_resolution(7) has them, from the file system's root.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <utility>

#include "fs/operations/file_operations.h"

namespace brickfs::library {

// An inode that stays, unlinked or not, as long as this does.
class InodeRef {
 public:
  InodeRef() = default;
  // Takes over the reference that an answer with attributes has counted.
  InodeRef(FileOperations& files, const Attributes& attributes) : files_(&files), attributes_(attributes) {}
  InodeRef(InodeRef&& other) noexcept { *this = std::move(other); }
  InodeRef& operator=(InodeRef&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(attributes_, other.attributes_);
    return *this;
  }
  ~InodeRef() {
    if (files_ != nullptr) files_->forget(attributes_.ino, 1);
  }

  Ino ino() const { return attributes_.ino; }
  const Attributes& attributes() const { return attributes_; }  // as they were
  bool is_directory() const { return S_ISDIR(attributes_.mode); }
  bool is_link() const { return S_ISLNK(attributes_.mode); }
  bool is_regular() const { return S_ISREG(attributes_.mode); }
  // The caller gives the reference back.
  Ino release() {
    files_ = nullptr;
    return attributes_.ino;
  }

 private:
  FileOperations* files_ = nullptr;  // null: nothing to give back
  Attributes attributes_;
};

enum class Follow { kLinks, kNotLast };

// What the path means.
Result<InodeRef> resolve(FileOperations& files, const char* path, Follow follow);

// The last name of a path, and the directory that it is in. Threads: one.
class LastName {
 public:
  explicit LastName(FileOperations& files) : files_(files) {}

  Status find(const char* path);
  // On from a symbolic link of that name.
  Status follow(const InodeRef& link);

  Ino directory() const { return at_.ino(); }
  std::string_view name() const { return name_; }
  bool is_root() const { return name_.empty(); }
  bool is_dots() const { return name_ == "." || name_ == ".."; }
  bool ends_with_slash() const { return slash_; }
  Result<InodeRef> lookup() const;  // ENOTDIR: it ends with a slash and is no directory

 private:
  friend Result<InodeRef> resolve(FileOperations& files, const char* path, Follow follow);
  Status go();
  Status enter(const InodeRef& link);
  Result<InodeRef> root() const;

  FileOperations& files_;
  std::string text_;  // what is left of the path, once a link has been followed
  std::string_view rest_;
  std::string_view name_;
  bool slash_ = false;
  int links_ = 0;
  InodeRef at_;
};

}  // namespace brickfs::library
