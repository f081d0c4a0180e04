// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <string>

#include "tests/support/acl_bytes.h"
#include "tests/support/mounted_volume.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr std::string_view kAccess = "system.posix_acl_access";
constexpr std::string_view kDefault = "system.posix_acl_default";

std::vector<std::byte> bytes(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

std::vector<std::byte> named_user_acl(uint16_t user, uint16_t mask) {
  return acl_bytes({{kAclOwner, 7, kNobody},
                    {kAclNamedUser, user, 1000},
                    {kAclGroup, 5, kNobody},
                    {kAclMask, mask, kNobody},
                    {kAclOthers, 0, kNobody}});
}

class XattrOps : public ::testing::Test {
 protected:
  XattrOps()
      : file_(volume_->create(kRootIno, "file", 0644, root_caller())->ino),
        folder_(volume_->make_directory(kRootIno, "folder", 0755, root_caller())->ino) {}

  int set(Ino ino, std::string_view name, const std::vector<std::byte>& value, int flags = 0,
          const Caller& caller = root_caller()) {
    return volume_->set_xattr(ino, name, value, flags, caller).code();
  }

  MountedVolume volume_;
  Ino file_;
  Ino folder_;
};

TEST_F(XattrOps, TrustedOnesAreListedForAdministratorsOnly) {
  EXPECT_EQ(set(file_, "trusted.one", bytes("1")), 0);
  EXPECT_EQ(set(file_, "user.two", bytes("2")), 0);
  EXPECT_EQ(*volume_->list_xattr(file_, user_caller(1000, 1000)), bytes(std::string_view("user.two\0", 9)));
}

TEST_F(XattrOps, AreKeptAndListed) {
  EXPECT_EQ(set(file_, "user.one", bytes("1")), 0);
  EXPECT_EQ(set(file_, "trusted.two", bytes("")), 0);
  EXPECT_EQ(set(file_, "security.three", bytes(std::string(limits::kXattrValueBytes, 'x'))), 0);
  ASSERT_TRUE(volume_->sync(file_).ok());
  volume_.crash_and_mount();
  EXPECT_EQ(*volume_->get_xattr(file_, "user.one"), bytes("1"));
  EXPECT_EQ(*volume_->get_xattr(file_, "trusted.two"), bytes(""));
  EXPECT_EQ(volume_->get_xattr(file_, "security.three")->size(), limits::kXattrValueBytes);
  EXPECT_EQ(*volume_->list_xattr(file_, root_caller()),
            bytes(std::string_view("security.three\0trusted.two\0user.one\0", 36)));
  EXPECT_TRUE(volume_->remove_xattr(file_, "user.one").ok());
  EXPECT_EQ(volume_->remove_xattr(file_, "user.one").code(), ENODATA);
  volume_.unmount_and_mount();
  EXPECT_EQ(volume_->get_xattr(file_, "user.one").code(), ENODATA);
}

TEST_F(XattrOps, TheSameValueAgainStampsNothing) {
  const AttributeChange old{.ctime = TimeNs{1}};
  EXPECT_EQ(set(file_, "user.one", bytes("1")), 0);
  ASSERT_TRUE(volume_->set_attributes(file_, old, root_caller()).ok());
  EXPECT_EQ(set(file_, "user.one", bytes("1")), 0);
  EXPECT_EQ(volume_->get_attributes(file_)->ctime, TimeNs{1});
  EXPECT_EQ(set(file_, "user.one", bytes("2")), 0);
  EXPECT_GT(volume_->get_attributes(file_)->ctime, TimeNs{1});
}

TEST_F(XattrOps, TheRootTellsOfTheLink) {
  EXPECT_EQ(*volume_->get_xattr(kRootIno, "brickfs.link"), bytes("embedded"));
  EXPECT_EQ(volume_->get_xattr(file_, "brickfs.link").code(), EOPNOTSUPP);
  EXPECT_EQ(set(kRootIno, "brickfs.link", bytes("mine")), EOPNOTSUPP);
  EXPECT_EQ(volume_->remove_xattr(kRootIno, "brickfs.link").code(), EOPNOTSUPP);
  EXPECT_TRUE(volume_->list_xattr(kRootIno, root_caller())->empty());
}

TEST_F(XattrOps, FlagsSayWhetherItMayExist) {
  EXPECT_EQ(set(file_, "user.a", bytes("1"), XATTR_REPLACE), ENODATA);
  EXPECT_EQ(set(file_, "user.a", bytes("1"), XATTR_CREATE), 0);
  EXPECT_EQ(set(file_, "user.a", bytes("2"), XATTR_CREATE), EEXIST);
  EXPECT_EQ(set(file_, "user.a", bytes("3"), XATTR_REPLACE), 0);
  EXPECT_EQ(*volume_->get_xattr(file_, "user.a"), bytes("3"));
}

TEST_F(XattrOps, BoundsAreKept) {
  EXPECT_EQ(set(file_, "user.", bytes("1")), EINVAL);
  EXPECT_EQ(set(file_, "nothing.a", bytes("1")), EOPNOTSUPP);
  EXPECT_EQ(set(file_, "system.other", bytes("1")), EOPNOTSUPP);
  EXPECT_EQ(set(file_, "user." + std::string(251, 'n'), bytes("1")), ERANGE);
  EXPECT_EQ(set(file_, "user." + std::string(250, 'n'), bytes("1")), 0);
  EXPECT_EQ(set(file_, "user.a", std::vector<std::byte>(limits::kXattrValueBytes + 1)), E2BIG);
  const std::vector<std::byte> large(limits::kXattrValueBytes);
  int code = 0;
  size_t stored = 0;
  while (code == 0 && stored < 100) {
    code = set(file_, "user." + std::to_string(stored), large);
    if (code == 0) ++stored;
  }
  EXPECT_EQ(code, ENOSPC);
  EXPECT_EQ(stored, limits::kXattrsBytesPerInode / limits::kXattrValueBytes - 1);
}

TEST_F(XattrOps, AccessListSetsTheMode) {
  EXPECT_EQ(set(file_, kAccess, named_user_acl(7, 6)), 0);
  EXPECT_EQ(volume_->get_attributes(file_)->mode, S_IFREG | 0760u);
  EXPECT_EQ(*volume_->get_xattr(file_, kAccess), named_user_acl(7, 6));
  volume_.unmount_and_mount();
  EXPECT_EQ(*volume_->get_xattr(file_, kAccess), named_user_acl(7, 6));
}

TEST_F(XattrOps, ListThatIsJustAModeIsNotStored) {
  EXPECT_EQ(set(file_, kAccess, named_user_acl(7, 6)), 0);
  EXPECT_EQ(
      set(file_, kAccess, acl_bytes({{kAclOwner, 6, kNobody}, {kAclGroup, 4, kNobody}, {kAclOthers, 4, kNobody}})), 0);
  EXPECT_EQ(volume_->get_attributes(file_)->mode, S_IFREG | 0644u);
  EXPECT_EQ(volume_->get_xattr(file_, kAccess).code(), ENODATA);
  EXPECT_TRUE(volume_->remove_xattr(file_, kAccess).ok());
}

TEST_F(XattrOps, AccessListOfANonMemberDropsSetGroupId) {
  ASSERT_TRUE(volume_->set_attributes(file_, {.mode = 02755, .uid = 1000, .gid = 50}, root_caller()).ok());
  EXPECT_EQ(set(file_, kAccess, named_user_acl(7, 7), 0, user_caller(1000, 1000)), 0);
  EXPECT_EQ(volume_->get_attributes(file_)->mode, S_IFREG | 0770u);
}

TEST_F(XattrOps, BadListsAreRefused) {
  EXPECT_EQ(set(file_, kAccess, bytes("nonsense")), EOPNOTSUPP);
  EXPECT_EQ(set(file_, kAccess, acl_bytes({{kAclOwner, 6, kNobody}})), EINVAL);
  EXPECT_EQ(set(file_, kDefault, named_user_acl(7, 7)), EACCES);
  const Ino symlink = volume_->make_symlink(kRootIno, "symlink", "file", root_caller())->ino;
  EXPECT_EQ(set(symlink, kAccess, named_user_acl(7, 7)), EOPNOTSUPP);
  EXPECT_EQ(volume_->get_attributes(file_)->mode, S_IFREG | 0644u);
}

TEST_F(XattrOps, DefaultListIsInheritedInPlaceOfTheUmask) {
  EXPECT_EQ(set(folder_, kDefault, named_user_acl(7, 7)), 0);
  const Caller caller = user_caller(1, 1, 077);
  const auto file = volume_->create(folder_, "file", 0666, caller);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->mode, S_IFREG | 0660u);
  const std::vector<std::byte> expected = acl_bytes({{kAclOwner, 6, kNobody},
                                                     {kAclNamedUser, 7, 1000},
                                                     {kAclGroup, 5, kNobody},
                                                     {kAclMask, 6, kNobody},
                                                     {kAclOthers, 0, kNobody}});
  EXPECT_EQ(*volume_->get_xattr(file->ino, kAccess), expected);
  EXPECT_EQ(volume_->get_xattr(file->ino, kDefault).code(), ENODATA);

  const auto inner = volume_->make_directory(folder_, "inner", 0777, caller);
  ASSERT_TRUE(inner.ok());
  EXPECT_EQ(inner->mode, S_IFDIR | 0770u);
  EXPECT_EQ(*volume_->get_xattr(inner->ino, kDefault), named_user_acl(7, 7));
  ASSERT_TRUE(volume_->sync_all().ok());
  volume_.crash_and_mount();
  EXPECT_EQ(*volume_->get_xattr(file->ino, kAccess), expected);
  EXPECT_EQ(*volume_->get_xattr(inner->ino, kDefault), named_user_acl(7, 7));
}

TEST_F(XattrOps, MinimalDefaultListGivesAModeOnly) {
  EXPECT_EQ(
      set(folder_, kDefault, acl_bytes({{kAclOwner, 7, kNobody}, {kAclGroup, 4, kNobody}, {kAclOthers, 0, kNobody}})),
      0);
  const auto file = volume_->create(folder_, "file", 0666, root_caller());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->mode, S_IFREG | 0640u);
  EXPECT_EQ(volume_->get_xattr(file->ino, kAccess).code(), ENODATA);
}

}  // namespace
}  // namespace brickfs
