// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/rows.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/support/row_text.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

std::span<const std::byte> value_of(std::string_view text) { return std::as_bytes(std::span(text)); }

InodeRow some_inode(Ino ino, uint32_t mode) {
  InodeRow row;
  row.ino = ino;
  row.parent = S_ISDIR(mode) ? Ino{7} : kNoIno;
  row.mode = mode;
  row.uid = 1000;
  row.gid = 0xffff'fffe;
  row.nlink = 3;
  row.rdev = 0x0801;
  row.size_bytes = INT64_MAX;
  row.atime = TimeNs{-1};
  row.mtime = TimeNs{INT64_MIN};
  row.ctime = TimeNs{INT64_MAX};
  row.btime = TimeNs{5};
  return row;
}

// One of each, with extremes.
Transaction all_rows() {
  Transaction rows;
  rows.put(some_inode(Ino{42}, S_IFREG | 07777));
  rows.put(some_inode(Ino{43}, S_IFDIR | 0755));
  InodeRow link = some_inode(Ino{44}, S_IFLNK | 0777);
  const std::string target(limits::kSymlinkBytes, 't');
  link.symlink_target = target;
  rows.put(link);
  const std::string name(limits::kNameBytes, 'n');
  rows.put(DirentRow{Ino{43}, name, Ino{42}, DT_REG, 3});
  rows.put(DirentRow{Ino{43}, "...", Ino{44}, DT_LNK, INT64_MAX});
  rows.put(ExtentRow{Ino{42}, 0, 1, 512, false});
  rows.put(ExtentRow{Ino{42}, (uint64_t{1} << 51) - 4, 4, (uint64_t{1} << 51) - 8, true});
  const std::string value(limits::kXattrValueBytes, 'v');
  rows.put(XattrRow{Ino{42}, "user.x", value_of(value)});
  rows.put(XattrRow{Ino{42}, "user.empty", {}});
  rows.put_orphan(Ino{INT64_MAX});
  rows.erase_inode(Ino{5});
  rows.erase_dirent(Ino{43}, "x");
  rows.erase_extents(Ino{42}, 17, UINT64_MAX - 17);
  rows.erase_xattr(Ino{42}, "user.x");
  rows.erase_orphan(Ino{6});
  const std::string machine(limits::kClientNameBytes, 'm');
  rows.put(MemberRow{INT64_MAX, UINT64_MAX, {std::byte{1}}, true, machine});
  rows.put(ReplyRow{7, ReplyRow::kSlots - 1, UINT64_MAX, UINT64_MAX, 3});
  rows.erase_member(7);
  return rows;
}

TEST(Rows, ComeBackAsTheyWerePut) {
  RowText text;
  const Transaction rows = all_rows();
  ASSERT_TRUE(decode_rows(rows.bytes(), text).ok());
  ASSERT_EQ(text.lines.size(), 18u);
  EXPECT_EQ(text.lines[0],
            "inode 42 parent 0 mode 107777 uid 1000 gid 4294967294 nlink 3 rdev 2049 size 9223372036854775807 times -1 "
            "-9223372036854775808 9223372036854775807 5 ->");
  EXPECT_EQ(text.lines[2].substr(text.lines[2].find("->")), "->" + std::string(limits::kSymlinkBytes, 't'));
  EXPECT_EQ(text.lines[4], "dirent 43/... = 44 type 10 cookie 9223372036854775807");
  EXPECT_EQ(text.lines[6], "extent 42 2251799813685244+4 on 2251799813685240 unwritten");
  EXPECT_EQ(text.lines[7], "xattr 42 user.x=" + std::string(limits::kXattrValueBytes, 'v'));
  EXPECT_EQ(text.lines[8], "xattr 42 user.empty=");
  EXPECT_EQ(text.lines[9], "orphan 9223372036854775807");
  EXPECT_EQ(text.lines[10], "erase inode 5");
  EXPECT_EQ(text.lines[11], "erase dirent 43/x");
  EXPECT_EQ(text.lines[12], "erase extents 42 17+18446744073709551598");
  EXPECT_EQ(text.lines[13], "erase xattr 42 user.x");
  EXPECT_EQ(text.lines[14], "erase orphan 6");
  EXPECT_EQ(text.lines[15], "member 9223372036854775807 client 18446744073709551615 token 0 " +
                                std::string(limits::kClientNameBytes, 'm') + " read-only");
  EXPECT_EQ(text.lines[16], "reply 7 slot 63 number 18446744073709551615 is 18446744073709551615 3");
  EXPECT_EQ(text.lines[17], "erase member 7");
}

TEST(Rows, CutOffRowsAreRefused) {
  const Transaction rows = all_rows();
  std::vector<size_t> ends = {0};
  while (ends.back() < rows.bytes().size()) {
    const auto length = first_row_bytes(rows.bytes().subspan(ends.back()));
    ASSERT_TRUE(length.ok());
    ends.push_back(ends.back() + *length);
  }
  ASSERT_EQ(ends.size(), 19u);
  for (size_t bytes = 0; bytes < rows.bytes().size(); bytes += bytes < 6000 || bytes > 70000 ? 1 : 997) {
    RowText text;
    const bool at_end = std::find(ends.begin(), ends.end(), bytes) != ends.end();
    EXPECT_EQ(decode_rows(rows.bytes().first(bytes), text).code(), at_end ? 0 : EUCLEAN) << bytes;
  }
}

TEST(Rows, WhatNobodyWouldWriteIsRefused) {
  // Offsets into the record of each row: docs/format.md, section "Rows".
  struct Case {
    const char* what;
    Transaction rows;
    size_t offset;
    uint8_t byte;
  };
  Transaction inode, dirent, extent, xattr, orphan, erase, member, reply, left;
  inode.put(some_inode(Ino{1}, S_IFREG | 0644));
  dirent.put(DirentRow{Ino{1}, "ab", Ino{2}, DT_REG, 3});
  extent.put(ExtentRow{Ino{1}, 0, 1, 512, false});
  xattr.put(XattrRow{Ino{1}, "n", {}});
  orphan.put_orphan(Ino{1});
  erase.erase_extents(Ino{1}, 1, 1);
  member.put(MemberRow{1, 2, {}, false, "ab"});
  reply.put(ReplyRow{1, 2, 3, 4, 5});
  left.erase_member(1);
  const Case cases[] = {
      {"kind 0", inode, 0, 0},
      {"unknown kind", inode, 0, 14},
      {"reserved byte", inode, 1, 1},
      {"no file type", inode, 5, 0x01},
      {"mode beyond 16 bits", inode, 6, 1},
      {"inode 0", inode, 8, 0},
      {"parent of a file", inode, 16, 1},
      {"negative size", inode, 47, 0x80},
      {"link count", inode, 35, 0x80},
      {"entry type", dirent, 1, 3},
      {"empty name", dirent, 2, 0},
      {"directory 0", dirent, 4, 0},
      {"slash in a name", dirent, 28, '/'},
      {"zero byte in a name", dirent, 29, 0},
      {"cookie of ..", dirent, 20, 2},
      {"unwritten 2", extent, 1, 2},
      {"empty extent", extent, 20, 0},
      {"units beyond a file", extent, 18, 0x08},
      {"xattr without a name", xattr, 1, 0},
      {"huge value", xattr, 6, 2},
      {"orphan 0", orphan, 4, 0},
      {"orphan with a name", orphan, 1, 1},
      {"erases nothing", erase, 20, 0},
      {"reserved byte", erase, 3, 1},
      {"read-only 2", member, 1, 2},
      {"reserved byte", member, 3, 1},
      {"session 0", member, 4, 0},
      {"negative session", member, 11, 0x80},
      {"zero byte in a machine's name", member, 36, 0},
      {"slot out of bounds", reply, 1, 64},
      {"session 0", reply, 4, 0},
      {"call 0", reply, 12, 0},
      {"nobody left", left, 4, 0},
  };
  for (const Case& c : cases) {
    std::vector<std::byte> bytes(c.rows.bytes().begin(), c.rows.bytes().end());
    RowText text;
    ASSERT_TRUE(decode_rows(bytes, text).ok()) << c.what;
    bytes.at(c.offset) = std::byte{c.byte};
    EXPECT_EQ(decode_rows(bytes, text).code(), EUCLEAN) << c.what;
  }
  for (const char* name : {".", ".."}) {
    Transaction rows;
    rows.put(DirentRow{Ino{1}, name[1] == 0 ? "x" : "xx", Ino{2}, DT_REG, 3});
    std::vector<std::byte> bytes(rows.bytes().begin(), rows.bytes().end());
    std::fill(bytes.begin() + 28, bytes.end(), std::byte{'.'});
    RowText text;
    EXPECT_EQ(decode_rows(bytes, text).code(), EUCLEAN) << name;
  }
}

class PutAgain final : public RowVisitor {
 public:
  Status put(const InodeRow& row) override { return again(row); }
  Status put(const DirentRow& row) override { return again(row); }
  Status put(const ExtentRow& row) override { return again(row); }
  Status put(const XattrRow& row) override { return again(row); }
  Status put(const MemberRow& row) override { return again(row); }
  Status put(const ReplyRow& row) override { return again(row); }
  Status erase_member(uint64_t session) override { return rows_.erase_member(session), Status(); }
  Status put_orphan(Ino ino) override { return rows_.put_orphan(ino), Status(); }
  Status erase_inode(Ino ino) override { return rows_.erase_inode(ino), Status(); }
  Status erase_dirent(Ino ino, std::string_view name) override { return rows_.erase_dirent(ino, name), Status(); }
  Status erase_extents(Ino ino, uint64_t unit, uint64_t count) override {
    return rows_.erase_extents(ino, unit, count), Status();
  }
  Status erase_xattr(Ino ino, std::string_view name) override { return rows_.erase_xattr(ino, name), Status(); }
  Status erase_orphan(Ino ino) override { return rows_.erase_orphan(ino), Status(); }
  const Transaction& rows() const { return rows_; }

 private:
  template <typename Row>
  Status again(const Row& row) {
    return rows_.put(row), Status();
  }
  Transaction rows_;
};

// Whatever the bytes, decoding ends with success or EUCLEAN, and what it passes on could be put again.
TEST(Rows, RandomBytesAreRefusedOrMeanSomething) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Transaction sound = all_rows();
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(sound.bytes().begin(), sound.bytes().begin() + 4700);
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= std::byte(1u << random() % 8);
    PutAgain again;
    const Status status = decode_rows(bytes, again);
    EXPECT_TRUE(status.ok() || status.error().is(EUCLEAN));
    EXPECT_TRUE(std::equal(again.rows().bytes().begin(), again.rows().bytes().end(), bytes.begin()));
  }
}

TEST(Rows, AnErrorOfTheVisitorEndsTheDecoding) {
  RowText text;
  text.fail_at = 3;
  EXPECT_EQ(decode_rows(all_rows().bytes(), text).code(), EIO);
  EXPECT_EQ(text.lines.size(), 3u);
}

}  // namespace
}  // namespace brickfs
