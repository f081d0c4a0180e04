// SPDX-License-Identifier: Apache-2.0
// The parts of the crash explorer, and the whole of it with blocks of their real size: brickfs-crash has small ones.
#include "tests/support/crash_explorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace brickfs {
namespace {

std::vector<std::byte> filled(size_t bytes, int with) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(with));
}

std::vector<std::byte> read(const CrashImage& image, uint64_t address, size_t bytes) {
  std::vector<std::byte> into(bytes);
  image.read(address, into);
  return into;
}

BrickEvent write_event(uint64_t begin, uint64_t end, uint64_t address, size_t bytes, int with) {
  BrickEvent event;
  event.begin = begin;
  event.end = end;
  event.address = address;
  event.bytes = filled(bytes, with);
  return event;
}

CrashSequence sequence(const char* text) {
  std::string why;
  return parse_sequence(text, &why).value();
}

TEST(CrashImage, CopiesShareUntilOneIsWritten) {
  CrashImage image;
  image.add(BlockAddress{0});
  image.write(5000, filled(10, 1));
  CrashImage copy = image;
  EXPECT_EQ(copy.digest(), image.digest());
  copy.write(5005, filled(10, 2));
  EXPECT_NE(copy.digest(), image.digest());
  EXPECT_EQ(read(image, 5000, 10), filled(10, 1));
  EXPECT_EQ(read(copy, 5005, 10), filled(10, 2));
  copy.copy_from(image, 0, kBlockBytes);
  EXPECT_EQ(copy.digest(), image.digest());
}

TEST(CrashImage, WhatWasZeroedEqualsWhatWasNeverWritten) {
  CrashImage image;
  image.add(BlockAddress{0});
  CrashImage other = image;
  other.write(0, filled(4096, 7));
  other.write(0, filled(4096, 0));
  EXPECT_EQ(image.digest(), other.digest());
}

// Two writes under way at once: each may be there without the other, and in part.
TEST(CrashStates, WritesUnderWayLandInAnyOrderAndInPart) {
  BrickLog log;
  log.before.visible.add(BlockAddress{0});
  log.events = {write_event(1, 4, 0, 128, 1), write_event(2, 3, 4096, 8, 2)};
  log.end = 5;
  std::set<std::pair<int, int>> seen;  // the first byte of each
  bool torn = false;
  CrashStates(log, CrashOf::kClient, 0, true, 1).for_each([&](BrickState&& state, const CrashPoint&) {
    const auto first = read(state.visible, 0, 128);
    seen.insert({static_cast<int>(first[0]), static_cast<int>(read(state.visible, 4096, 1)[0])});
    torn |= first[0] != first[127];
    return true;
  });
  EXPECT_EQ(seen, (std::set<std::pair<int, int>>{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
  EXPECT_TRUE(torn);
}

// A commit of data, then journal: the journal's bytes are never there without all of the data's, nor without their
// block.
TEST(CrashStates, ACommitCutShortKeepsItsBarrier) {
  BrickLog log;
  log.durable = true;
  log.before.visible.add(BlockAddress{0});
  log.before.stored.add(BlockAddress{0});
  BrickEvent alloc;
  alloc.kind = BrickEvent::Kind::kAlloc;
  alloc.blocks = {BlockAddress{kBlockBytes}, 1};
  alloc.begin = 1;
  alloc.end = 2;
  BrickEvent commit;
  commit.kind = BrickEvent::Kind::kCommit;
  commit.ranges = {{kBlockBytes, 4096, false}, {0, 4096, true}};
  commit.settled = {kBlockBytes};
  commit.begin = 7;
  commit.end = 8;
  log.events = {alloc, write_event(3, 4, kBlockBytes, 4096, 1), write_event(5, 6, 0, 4096, 2), commit};
  log.end = 9;
  bool whole = false;
  bool without_block = false;
  CrashStates(log, CrashOf::kBrick, 0, true, 1).for_each([&](BrickState&& state, const CrashPoint& point) {
    const bool has_block = state.visible.contains(BlockAddress{kBlockBytes});
    const auto journal = read(state.visible, 0, 4096);
    const bool has_journal = std::ranges::count(journal, std::byte{2}) > 0;
    without_block |= !has_block;
    if (has_journal) {
      EXPECT_TRUE(has_block) << point.text();
      EXPECT_EQ(read(state.visible, kBlockBytes, 4096), filled(4096, 1)) << point.text();
      whole |= journal == filled(4096, 2);
    }
    return true;
  });
  EXPECT_TRUE(whole);
  EXPECT_TRUE(without_block);
}

TreeSnapshot tree(const std::string& contents) {
  TreeSnapshot snapshot;
  snapshot.files["/a"] = {Ino{2}, {}, "", contents};
  return snapshot;
}

TEST(CrashOracle, TakesAnyStateSinceTheLastSync) {
  std::vector<TreeSnapshot> history = {tree(""), tree("1"), tree("12")};
  EXPECT_EQ(judge(history, 1, 2, tree("1")), "");
  EXPECT_EQ(judge(history, 1, 2, tree("12")), "");
  EXPECT_NE(judge(history, 1, 2, tree("")), "");
  EXPECT_NE(judge(history, 0, 2, tree("13")), "");
}

TEST(CrashOracle, BytesWrittenOverOldOnesMayBeThereAlready) {
  std::vector<TreeSnapshot> history = {tree("aaaa"), tree("abba")};
  EXPECT_EQ(judge(history, 0, 1, tree("abaa")), "");
  EXPECT_NE(judge(history, 0, 0, tree("abaa")), "");
}

// What stood behind a truncation is not old bytes: nothing of the future may be there.
TEST(CrashOracle, BytesBehindATruncationAreNotWrittenOver) {
  std::vector<TreeSnapshot> history = {tree("aaaa"), tree("a"), tree("abbb")};
  EXPECT_EQ(judge(history, 0, 2, tree("aaaa")), "");
  EXPECT_NE(judge(history, 0, 2, tree("abba")), "");
}

QueuedRequest request_of(QueuedRequest::Kind kind, uint64_t begin, uint64_t end, uint64_t offset = 0,
                         const char* bytes = "") {
  QueuedRequest request{kind, Ino{2}, offset, {}, begin, end, 0};
  for (const char* byte = bytes; *byte != 0; ++byte) request.bytes.push_back(static_cast<std::byte>(*byte));
  return request;
}

TreeSnapshot sized_tree(const std::string& contents, int64_t time) {
  TreeSnapshot snapshot = tree(contents);
  snapshot.files["/a"].written = {contents.size(), 8, TimeNs{time}, TimeNs{time}};
  return snapshot;
}

// Two appends at once, and a sync that began when the first had ended, in "ab".
CrashHistory two_appends(const std::string& after) {
  using Kind = QueuedRequest::Kind;
  CrashHistory history;
  history.trees.push_back(sized_tree("ab", 0));
  EXPECT_TRUE(history.add_requests(
      {request_of(Kind::kAppend, 1, 3, 0, "1"), request_of(Kind::kAppend, 2, 9, 0, "2"), request_of(Kind::kSync, 5, 7)},
      1, 9, sized_tree(after, 9)));
  return history;
}

TEST(CrashOracle, OfRequestsUnderWayAnyMayBeThere) {
  const CrashHistory history = two_appends("ab12");
  const CrashBounds bounds(history, 4);
  EXPECT_EQ(judge(history, bounds, sized_tree("ab", 0)), "");
  EXPECT_EQ(judge(history, bounds, sized_tree("ab1", 5)), "");
  EXPECT_EQ(judge(history, bounds, sized_tree("ab12", 9)), "");
  EXPECT_NE(judge(history, bounds, sized_tree("ab2", 5)), "");   // the first one came first
  EXPECT_NE(judge(history, bounds, sized_tree("ab1", 10)), "");  // a time that is yet to come
}

TEST(CrashOracle, WhatHadEndedWhenASyncBeganIsThere) {
  for (const char* const after : {"ab12", "ab21"}) {
    const CrashHistory history = two_appends(after);
    const CrashBounds bounds(history, 8);
    EXPECT_NE(judge(history, bounds, sized_tree("ab", 0)), "");
    EXPECT_EQ(judge(history, bounds, sized_tree("ab1", 5)).empty(), after == std::string("ab12"));
    EXPECT_EQ(judge(history, bounds, sized_tree(after, 9)), "");
  }
}

TEST(CrashOracle, RequestsThatNoOrderExplainsAreSeen) {
  using Kind = QueuedRequest::Kind;
  CrashHistory history;
  history.trees.push_back(sized_tree("ab", 0));
  EXPECT_FALSE(history.add_requests({request_of(Kind::kAppend, 1, 3, 0, "1"), request_of(Kind::kAppend, 2, 9, 0, "2")},
                                    1, 9, sized_tree("ab2", 9)));
  CrashHistory ordered;
  ordered.trees.push_back(sized_tree("ab", 0));
  EXPECT_FALSE(  // one had ended when the other began
      ordered.add_requests({request_of(Kind::kWrite, 1, 3, 0, "1"), request_of(Kind::kWrite, 4, 9, 0, "2")}, 1, 9,
                           sized_tree("1b", 9)));
}

TEST(CrashOracle, RequestsUnderWayMayHaveWrittenOverOldBytes) {
  using Kind = QueuedRequest::Kind;
  CrashHistory history;
  history.trees.push_back(sized_tree("abc", 0));
  EXPECT_TRUE(history.add_requests({request_of(Kind::kWrite, 1, 8, 0, "12"), request_of(Kind::kWrite, 5, 9, 0, "34")},
                                   1, 9, sized_tree("34c", 9)));
  EXPECT_EQ(judge(history, CrashBounds(history, 6), sized_tree("1bc", 0)), "");
  EXPECT_EQ(judge(history, CrashBounds(history, 6), sized_tree("14c", 5)), "");
  EXPECT_NE(judge(history, CrashBounds(history, 4), sized_tree("14c", 5)), "");  // the second had not begun
  EXPECT_NE(judge(history, CrashBounds(history, 6), sized_tree("ab3", 0)), "");
}

TEST(CrashExplorer, FindsNothingInBlocksOfRealSize) {
  CrashExplorer explorer({});
  EXPECT_EQ(explorer.explore(sequence("append a 3000; sync; rename a d/x"), false), "");
  EXPECT_EQ(
      explorer.explore(sequence("submit append a 3000; submit write a 0 100; wait 1; submit fsync a; wait"), false),
      "");
  EXPECT_GT(explorer.states(), 100u);
}

}  // namespace
}  // namespace brickfs
