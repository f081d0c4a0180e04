// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/secret_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() {
    std::string name = (std::filesystem::temp_directory_path() / "brickfs-secret.XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ / "secret";
    std::ofstream(path_) << "hidden\n";
    EXPECT_EQ(::chmod(path_.c_str(), 0600), 0);
  }
  ~SecretFile() override { std::filesystem::remove_all(directory_); }

  // 0: it is taken.
  int code() { return read_secret_file(path_, &why_).code(); }
  int code_with_mode(mode_t mode) {
    EXPECT_EQ(::chmod(path_.c_str(), mode), 0);
    return code();
  }
  std::vector<std::string> lines_of(const std::string& text) {
    std::ofstream(path_) << text;
    std::vector<std::string> lines;
    const auto read = read_secrets(path_, &why_);
    if (read.ok())
      for (const Secret& one : *read) lines.emplace_back(one.bytes.view());
    return lines;
  }
  bool is_root() const { return ::geteuid() == 0; }

  std::filesystem::path directory_;
  std::filesystem::path path_;
  std::string why_;
};

TEST_F(SecretFile, OneForNobodyElseIsTakenAlsoByALink) {
  EXPECT_EQ(read_secret_file(path_, nullptr)->bytes, "hidden");
  EXPECT_EQ(code_with_mode(0400), 0);
  const std::filesystem::path link = directory_ / "link";
  std::filesystem::create_symlink(path_, link);
  path_ = link;
  EXPECT_EQ(code(), 0);
}

TEST_F(SecretFile, EachLineOfTextIsOneAndAClientShowsTheFirst) {
  EXPECT_EQ(lines_of("one\r\n\ntwo two\n\n"), (std::vector<std::string>{"one", "two two"}));
  EXPECT_EQ(read_secret_file(path_, nullptr)->bytes, "one");
  EXPECT_EQ(lines_of("without an end"), (std::vector<std::string>{"without an end"}));
  EXPECT_TRUE(lines_of("\n\r\n").empty());
  EXPECT_NE(why_.find("is empty"), std::string::npos) << why_;
  std::string many;
  for (size_t i = 0; i < limits::kSecrets; ++i) many += "x\n";
  EXPECT_EQ(lines_of(many).size(), limits::kSecrets);
  EXPECT_TRUE(lines_of(many + "x\n").empty());
}

TEST_F(SecretFile, RandomBytesAreOneWhateverTheyAre) {
  EXPECT_EQ(lines_of("a\nb\x01"), (std::vector<std::string>{"a\nb\x01"}));
  EXPECT_EQ(lines_of("a\nb\xff\n\n"), (std::vector<std::string>{"a\nb\xff"}));
}

TEST_F(SecretFile, OneThatOthersCanReadOrWriteIsRefusedAndSaysWhatToDo) {
  for (const mode_t mode : {0644, 0604, 0602, 0620, 0610, 0601, 0666}) {
    EXPECT_EQ(code_with_mode(mode), EPERM) << std::oct << mode;
    EXPECT_NE(why_.find("chmod 600"), std::string::npos) << why_;
  }
  EXPECT_EQ(code_with_mode(0640), is_root() ? 0 : EPERM);  // of root's a group may read
}

TEST_F(SecretFile, AnotherUsersIsRefused) {
  if (!is_root()) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown(path_.c_str(), 1234, 0), 0);
  EXPECT_EQ(code(), EPERM);
  EXPECT_NE(why_.find("chown"), std::string::npos) << why_;
}

// A key of HMAC is filled up with zeros, so a secret of zeros is none.
TEST_F(SecretFile, ZerosCountForNothing) {
  EXPECT_TRUE(same_secret(Secret{"hidden"}, Secret{std::string("hidden\0", 7)}));
  EXPECT_FALSE(same_secret(Secret{"hidden"}, Secret{std::string("\0hidden", 7)}));
  EXPECT_FALSE(same_secret(Secret{"hidden"}, Secret{"hiddem"}));
  EXPECT_TRUE(same_secret(Secret{}, Secret{std::string(3, '\0')}));  // a secret that is none is a key, too
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << std::string(8, '\0') << '\n';
  EXPECT_EQ(code(), EINVAL);
  EXPECT_NE(why_.find("zeros"), std::string::npos) << why_;
}

TEST_F(SecretFile, WhatIsNoFileNeitherHoldsNorServes) {
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  ::alarm(20);
  EXPECT_EQ(code(), EINVAL);
  ::alarm(0);
  path_ = directory_;
  EXPECT_EQ(code(), EINVAL);
  path_ = "/dev/zero";
  EXPECT_EQ(code(), EINVAL);
}

}  // namespace
}  // namespace brickfs
