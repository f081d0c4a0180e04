// SPDX-License-Identifier: Apache-2.0
// What tests of libbrickfs stand on: handles that close themselves.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fs/library/brickfs.h"

namespace brickfs::testing {

class OpenFs {
 public:
  explicit OpenFs(const std::string& source = "memory:64M", const char* options = nullptr) {
    EXPECT_EQ(brickfs_fs_open(source.c_str(), options, &fs_), 0) << brickfs_error();
  }
  ~OpenFs() {
    if (fs_ == nullptr) return;
    EXPECT_EQ(close(), 0);
  }
  int close() {
    brickfs_fs* const fs = fs_;
    fs_ = nullptr;
    return brickfs_fs_close(fs);
  }
  brickfs_fs* get() const { return fs_; }
  operator brickfs_fs*() const { return fs_; }  // NOLINT(google-explicit-constructor)

 private:
  brickfs_fs* fs_ = nullptr;
};

class OpenFile {
 public:
  OpenFile(brickfs_fs* fs, const char* path, int flags = O_RDWR | O_CREAT, mode_t mode = 0644) {
    EXPECT_EQ(brickfs_open(fs, path, flags, mode, &file_), 0) << path;
  }
  ~OpenFile() {
    if (file_ == nullptr) return;
    EXPECT_EQ(brickfs_close(file_), 0);
  }
  operator brickfs_file*() const { return file_; }  // NOLINT(google-explicit-constructor)

 private:
  brickfs_file* file_ = nullptr;
};

inline void put(brickfs_fs* fs, const char* path, const std::string& text) {
  const OpenFile file(fs, path, O_WRONLY | O_CREAT | O_TRUNC);
  ASSERT_EQ(brickfs_pwrite(file, text.data(), text.size(), 0), static_cast<int64_t>(text.size()));
}

inline std::string get(brickfs_fs* fs, const char* path) {
  const OpenFile file(fs, path, O_RDONLY);
  struct stat stat {};
  EXPECT_EQ(brickfs_fstat(file, &stat), 0);
  std::string text(static_cast<size_t>(stat.st_size) + 1, '?');
  const int64_t length = brickfs_pread(file, text.data(), text.size(), 0);
  EXPECT_EQ(length, stat.st_size);
  text.resize(static_cast<size_t>(std::max<int64_t>(length, 0)));
  return text;
}

}  // namespace brickfs::testing
