// SPDX-License-Identifier: Apache-2.0
#include "server/port_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace brickfs {
namespace {

class PortFile : public ::testing::Test {
 protected:
  PortFile() {
    std::string name = (std::filesystem::temp_directory_path() / "brickfs-port.XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ / "port";
  }
  ~PortFile() override { std::filesystem::remove_all(directory_); }

  int write() { return write_port_file(path_, "20470\n", &why_).code(); }
  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t names() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory_), {}));
  }

  std::filesystem::path directory_;
  std::filesystem::path path_;
  std::string why_;
};

TEST_F(PortFile, IsMadeAndMadeAgain) {
  ASSERT_EQ(write(), 0) << why_;
  EXPECT_EQ(text_of(path_), "20470\n");
  std::ofstream(path_) << "of the brickd before";
  ASSERT_EQ(write(), 0) << why_;
  EXPECT_EQ(text_of(path_), "20470\n");
  EXPECT_EQ(names(), 1u);
}

TEST_F(PortFile, LinksAreNotFollowed) {
  const std::filesystem::path victim = directory_ / "victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, path_);
  std::filesystem::create_symlink(victim, path_.string() + ".new");
  EXPECT_EQ(write(), EINVAL);
  EXPECT_NE(why_.find("remove it"), std::string::npos) << why_;
  std::filesystem::remove(path_);
  EXPECT_EQ(write(), 0) << why_;
  EXPECT_EQ(text_of(victim), "precious");
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(directory_ / "nowhere", path_);
  EXPECT_EQ(write(), EINVAL);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "nowhere"));
}

TEST_F(PortFile, WhatIsNoFileStays) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  ::alarm(20);
  EXPECT_EQ(write(), EINVAL);
  ::alarm(0);
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

TEST_F(PortFile, AnotherUsersFileStays) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  std::ofstream(path_) << "mine";
  ASSERT_EQ(::chown(path_.c_str(), 1234, 0), 0);
  EXPECT_EQ(write(), EPERM);
  EXPECT_EQ(text_of(path_), "mine");
}

TEST_F(PortFile, LeavesNothingBehindWhereItCannotBeWritten) {
  path_ = directory_ / "missing" / "port";
  EXPECT_EQ(write(), ENOENT);
  EXPECT_EQ(names(), 0u);
}

}  // namespace
}  // namespace brickfs
