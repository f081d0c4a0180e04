// SPDX-License-Identifier: Apache-2.0
#include "transport/base/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/base/log.h"

namespace brickfs {
namespace {

TEST(Printable, OrdinaryTextStays) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a file, \"quoted\" \\x1b"), "a file, \"quoted\" \\x1b");
  EXPECT_EQ(printable("grüße \xe6\x97\xa5 \xf0\x9f\x98\x80"), "grüße \xe6\x97\xa5 \xf0\x9f\x98\x80");
}

TEST(Printable, NothingReachesATerminalThatItObeys) {
  EXPECT_EQ(printable("a\x1b]0;x\x07"), "a\\x1b]0;x\\x07");
  EXPECT_EQ(printable("one\nbrickd: error: two\r\t"), "one\\x0abrickd: error: two\\x0d\\x09");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // U+009B, as ESC [
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "gpj"),
            "\\xe2\\x80\\xaegpj");                          // U+202E, right to left
  EXPECT_EQ(printable("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // U+2028, a line's end
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, WhatIsNotUtf8IsEscapedByteByByte) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc3"), "\\xc3");  // cut off
  EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // overlong
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // overlong U+009B
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(Printable, AllBytesTwiceAreAsOnce) {
  std::string all;
  for (int first = 0; first < 256; ++first)
    all += {static_cast<char>(first), 'x', static_cast<char>(0xc2), static_cast<char>(first)};
  const std::string once = printable(all);
  EXPECT_EQ(printable(once), once);
  for (const char byte : once) EXPECT_TRUE(static_cast<unsigned char>(byte) >= 0x20);
}

TEST(Printable, LogLinesAreMadeSo) {
  ASSERT_TRUE(set_up_log("test", "info", LogTarget::kStandardError).ok());
  ::testing::internal::CaptureStderr();
  log::info("{} is mounted", "a\x1b[2J\nbrickd: error: all is lost");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "test: info: a\\x1b[2J\\x0abrickd: error: all is lost is mounted\n");
}

TEST(Printable, ATextIsCutBetweenCharacters) {
  const std::string text = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z";  // of one, two, three and four bytes
  const std::vector<size_t> ends = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t most = 0; most < ends.size(); ++most) {
    EXPECT_EQ(cut_text(text, most), text.substr(0, ends[most])) << most;
    EXPECT_EQ(printable(cut_text(text, most)), cut_text(text, most)) << most;
  }
  EXPECT_EQ(cut_text("", 0), "");
  EXPECT_EQ(cut_text("\x80\x80\x80\x80\x80\x80", 5), "\x80\x80\x80\x80\x80") << "not UTF-8";
  EXPECT_EQ(cut_text("\x80\x80\x80", 1), "\x80");
}

}  // namespace
}  // namespace brickfs
