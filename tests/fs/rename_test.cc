// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

// Directories a/, a/inner/, b/ and files a/file, b/other.
class RenameOp : public ::testing::Test {
 protected:
  RenameOp() {
    a_ = make_directory(kRootIno, "a");
    b_ = make_directory(kRootIno, "b");
    inner_ = make_directory(a_, "inner");
    file_ = make_file(a_, "file");
    other_ = make_file(b_, "other");
  }

  Ino make_directory(Ino parent, std::string_view name) {
    return forgotten(volume_->make_directory(parent, name, 0755, root_caller()));
  }
  Ino make_file(Ino parent, std::string_view name) {
    return forgotten(volume_->create(parent, name, 0644, root_caller()));
  }
  Ino forgotten(const Result<Attributes>& made) {
    EXPECT_TRUE(made.ok());
    volume_->forget(made->ino, 1);
    return made->ino;
  }
  int rename(Ino from, std::string_view name, Ino to, std::string_view new_name, Rename how = Rename::kReplace) {
    return volume_->rename(from, name, to, new_name, how).code();
  }
  uint32_t links(Ino ino) { return volume_->get_attributes(ino)->nlink; }
  // kNoIno if there is nothing.
  Ino at(std::string_view path) {
    const auto found = stat_path(*volume_, path);
    return found.ok() ? found->ino : kNoIno;
  }

  MountedVolume volume_;
  Ino a_{}, b_{}, inner_{}, file_{}, other_{};
};

TEST_F(RenameOp, MovesAFile) {
  EXPECT_EQ(rename(a_, "file", b_, "moved"), 0);
  EXPECT_EQ(at("a/file"), kNoIno);
  EXPECT_EQ(at("b/moved"), file_);
  ASSERT_TRUE(volume_->sync_all().ok());
  volume_.crash_and_mount();
  EXPECT_EQ(at("a/file"), kNoIno);
  EXPECT_EQ(at("b/moved"), file_);
}

TEST_F(RenameOp, ReplacesAFile) {
  EXPECT_EQ(rename(a_, "file", b_, "other"), 0);
  EXPECT_EQ(at("b/other"), file_);
  EXPECT_EQ(volume_->get_attributes(other_).code(), ESTALE);
  EXPECT_EQ(links(file_), 1u);
}

TEST_F(RenameOp, ReplacedFileInUseLivesOn) {
  ASSERT_TRUE(volume_->lookup(b_, "other").ok());
  EXPECT_EQ(rename(a_, "file", b_, "other"), 0);
  EXPECT_EQ(links(other_), 0u);
  volume_->forget(other_, 1);
  EXPECT_EQ(volume_->get_attributes(other_).code(), ESTALE);
}

TEST_F(RenameOp, MovedDirectoryHasANewParent) {
  EXPECT_EQ(links(a_), 3u);
  EXPECT_EQ(rename(a_, "inner", b_, "moved"), 0);
  EXPECT_EQ(links(a_), 2u);
  EXPECT_EQ(links(b_), 3u);
  EXPECT_EQ(volume_->lookup(inner_, "..")->ino, b_);
  volume_.unmount_and_mount();
  EXPECT_EQ(links(b_), 3u);
  EXPECT_EQ(volume_->lookup(inner_, "..")->ino, b_);
}

TEST_F(RenameOp, ReplacesAnEmptyDirectory) {
  EXPECT_EQ(rename(kRootIno, "b", a_, "inner"), 0);
  EXPECT_EQ(at("a/inner"), b_);
  EXPECT_EQ(volume_->get_attributes(inner_).code(), ESTALE);
  EXPECT_EQ(links(a_), 3u);
  EXPECT_EQ(links(kRootIno), 3u);
  EXPECT_EQ(at("a/inner/other"), other_);
}

TEST_F(RenameOp, RefusesWhatLinuxRefuses) {
  EXPECT_EQ(rename(a_, "nothing", b_, "x"), ENOENT);
  EXPECT_EQ(rename(a_, "file", file_, "x"), ENOTDIR);
  EXPECT_EQ(rename(a_, "file", kRootIno, "b"), EISDIR);
  EXPECT_EQ(rename(a_, "inner", b_, "other"), ENOTDIR);
  EXPECT_EQ(rename(kRootIno, "b", kRootIno, "a"), ENOTEMPTY);
  EXPECT_EQ(rename(kRootIno, "a", inner_, "x"), EINVAL);
  EXPECT_EQ(rename(kRootIno, "a", a_, "x"), EINVAL);
  EXPECT_EQ(rename(a_, "file", b_, ".."), EEXIST);
  make_directory(inner_, "deep");
  EXPECT_EQ(rename(inner_, "deep", kRootIno, "a"), ENOTEMPTY) << "an ancestor";
  EXPECT_EQ(rename(a_, "file", b_, "other", Rename::kNoReplace), EEXIST);
  EXPECT_EQ(rename(a_, "file", b_, "nothing", Rename::kExchange), ENOENT);
  EXPECT_EQ(at("a/file"), file_);
  EXPECT_EQ(at("b/other"), other_);
}

TEST_F(RenameOp, NoReplaceMovesToAFreeName) {
  EXPECT_EQ(rename(a_, "file", b_, "free", Rename::kNoReplace), 0);
  EXPECT_EQ(at("b/free"), file_);
}

TEST_F(RenameOp, OntoALinkOfItselfDoesNothing) {
  const auto linked = volume_->link(file_, b_, "same");
  ASSERT_TRUE(linked.ok());
  EXPECT_EQ(rename(a_, "file", b_, "same"), 0);
  EXPECT_EQ(at("a/file"), file_);
  EXPECT_EQ(at("b/same"), file_);
  EXPECT_EQ(links(file_), 2u);
  EXPECT_EQ(rename(a_, "file", a_, "file"), 0);
  EXPECT_EQ(at("a/file"), file_);
}

TEST_F(RenameOp, ExchangesFileAndDirectory) {
  EXPECT_EQ(rename(a_, "inner", b_, "other", Rename::kExchange), 0);
  EXPECT_EQ(at("a/inner"), other_);
  EXPECT_EQ(at("b/other"), inner_);
  EXPECT_EQ(links(a_), 2u);
  EXPECT_EQ(links(b_), 3u);
  EXPECT_EQ(volume_->lookup(inner_, "..")->ino, b_);
  ASSERT_TRUE(volume_->sync_all().ok());
  volume_.crash_and_mount();
  EXPECT_EQ(at("a/inner"), other_);
  EXPECT_EQ(at("b/other"), inner_);
  EXPECT_EQ(links(b_), 3u);
}

TEST_F(RenameOp, ExchangesWithinOneDirectory) {
  EXPECT_EQ(rename(a_, "inner", a_, "file", Rename::kExchange), 0);
  EXPECT_EQ(at("a/inner"), file_);
  EXPECT_EQ(at("a/file"), inner_);
  EXPECT_EQ(links(a_), 3u);
}

TEST_F(RenameOp, LeavesAWhiteout) {
  const Caller caller = root_caller();
  ASSERT_EQ(volume_->rename(a_, "file", b_, "other", Rename::kReplace, &caller).code(), 0);
  ASSERT_EQ(volume_->rename(a_, "inner", a_, "moved", Rename::kNoReplace, &caller).code(), 0);
  const auto expect_all = [this] {
    EXPECT_EQ(at("b/other"), file_);
    EXPECT_EQ(at("a/moved"), inner_);
    EXPECT_EQ(links(a_), 3u);
    for (const char* path : {"a/file", "a/inner"}) {
      const auto whiteout = stat_path(*volume_, path);
      ASSERT_TRUE(whiteout.ok());
      EXPECT_EQ(whiteout->mode, uint32_t{S_IFCHR});
      EXPECT_EQ(whiteout->rdev, 0u);
      EXPECT_EQ(whiteout->nlink, 1u);
    }
  };
  expect_all();
  ASSERT_TRUE(volume_->sync_all().ok());
  volume_.crash_and_mount();
  expect_all();
  EXPECT_EQ(volume_->unlink(a_, "file").code(), 0);
  EXPECT_EQ(volume_->rename(b_, "other", a_, "inner", Rename::kNoReplace, &caller).code(), EEXIST);
  EXPECT_EQ(volume_->rename(b_, "other", a_, "inner", Rename::kReplace, &caller).code(), 0);
  EXPECT_EQ(at("a/inner"), file_);
}

TEST_F(RenameOp, DoesNotExchangeADirectoryWithItsInside) {
  EXPECT_EQ(rename(kRootIno, "a", a_, "inner", Rename::kExchange), EINVAL);
  EXPECT_EQ(rename(a_, "inner", kRootIno, "a", Rename::kExchange), EINVAL);
}

TEST_F(RenameOp, StampsWhatMoved) {
  const AttributeChange old{.mtime = TimeNs{1}, .ctime = TimeNs{1}};
  for (const Ino ino : {a_, b_, file_}) ASSERT_TRUE(volume_->set_attributes(ino, old, root_caller()).ok());
  EXPECT_EQ(rename(a_, "file", b_, "moved"), 0);
  for (const Ino ino : {a_, b_}) EXPECT_GT(volume_->get_attributes(ino)->mtime, TimeNs{1});
  EXPECT_GT(volume_->get_attributes(file_)->ctime, TimeNs{1});
  EXPECT_EQ(volume_->get_attributes(file_)->mtime, TimeNs{1});
}

}  // namespace
}  // namespace brickfs
