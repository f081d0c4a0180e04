// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/acl.h"

#include <gtest/gtest.h>

#include "tests/support/acl_bytes.h"

namespace brickfs {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

TEST(Acl, MinimalOneIsItsMode) {
  const auto acl = Acl::parse(acl_bytes({{kAclOwner, 7, kNobody}, {kAclGroup, 5, kNobody}, {kAclOthers, 1, kNobody}}));
  ASSERT_TRUE(acl.ok());
  EXPECT_TRUE(acl->is_minimal());
  EXPECT_EQ(acl->permissions(), 0751u);
}

TEST(Acl, MaskStandsForTheGroup) {
  const std::vector<std::byte> bytes = acl_bytes({{kAclOwner, 6, kNobody},
                                                  {kAclNamedUser, 7, 1000},
                                                  {kAclGroup, 5, kNobody},
                                                  {kAclMask, 4, kNobody},
                                                  {kAclOthers, 0, kNobody}});
  auto acl = Acl::parse(bytes);
  ASSERT_TRUE(acl.ok());
  EXPECT_FALSE(acl->is_minimal());
  EXPECT_EQ(acl->permissions(), 0640u);
  EXPECT_EQ(acl->bytes(), bytes);
  acl->set_permissions(0770);
  EXPECT_EQ(acl->bytes(), acl_bytes({{kAclOwner, 7, kNobody},
                                     {kAclNamedUser, 7, 1000},
                                     {kAclGroup, 5, kNobody},
                                     {kAclMask, 7, kNobody},
                                     {kAclOthers, 0, kNobody}}));
}

TEST(Acl, InheritedOneAllowsNoMoreThanListAndModeBoth) {
  auto acl = Acl::parse(acl_bytes({{kAclOwner, 7, kNobody},
                                   {kAclNamedUser, 7, 1000},
                                   {kAclGroup, 7, kNobody},
                                   {kAclMask, 6, kNobody},
                                   {kAclOthers, 5, kNobody}}));
  ASSERT_TRUE(acl.ok());
  EXPECT_EQ(acl->inherit(0666), 0664u);
  EXPECT_EQ(acl->permissions(), 0664u);
}

TEST(Acl, EmptyOnesAreLegal) {
  ASSERT_TRUE(Acl::parse({}).ok());
  EXPECT_TRUE(Acl::parse({})->empty());
  EXPECT_TRUE(Acl::parse(acl_bytes({}))->empty());
}

TEST(Acl, WhatIsNotValidIsRefused) {
  const AclEntry owner{kAclOwner, 7, kNobody};
  const AclEntry group{kAclGroup, 7, kNobody};
  const AclEntry others{kAclOthers, 7, kNobody};
  EXPECT_EQ(Acl::parse(acl_bytes({owner, group})).code(), EINVAL) << "one missing";
  EXPECT_EQ(Acl::parse(acl_bytes({group, owner, others})).code(), EINVAL) << "order";
  EXPECT_EQ(Acl::parse(acl_bytes({owner, owner, group, others})).code(), EINVAL) << "twice";
  EXPECT_EQ(Acl::parse(acl_bytes({owner, {kAclNamedUser, 7, 1}, group, others})).code(), EINVAL) << "no mask";
  EXPECT_EQ(Acl::parse(acl_bytes({owner, group, {kAclOthers, 8, kNobody}})).code(), EINVAL) << "permissions";
  EXPECT_EQ(Acl::parse(acl_bytes({owner, group, others, {0x40, 0, 0}})).code(), EINVAL) << "tag";
  std::vector<std::byte> bytes = acl_bytes({owner, group, others});
  bytes.pop_back();
  EXPECT_EQ(Acl::parse(bytes).code(), EINVAL) << "cut off";
  bytes.resize(3);
  EXPECT_EQ(Acl::parse(bytes).code(), EINVAL) << "cut off in the header";
  bytes = acl_bytes({owner, group, others});
  bytes[0] = std::byte{3};
  EXPECT_EQ(Acl::parse(bytes).code(), EOPNOTSUPP) << "version";
}

}  // namespace
}  // namespace brickfs
