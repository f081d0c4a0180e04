// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fs/fuse/protocol/negotiation.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What it makes of the kernel's settings; less than 0: there is no such file.
class RequestLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "request-limit-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  RequestLimit limit(int most, int usual) {
    set("max_request_timeout", most);
    set("default_request_timeout", usual);
    return read_request_limit(directory_);
  }

 private:
  void set(const std::string& name, int value) {
    std::filesystem::remove(directory_ + "/" + name);
    if (value >= 0) std::ofstream(directory_ + "/" + name) << value << "\n";
  }
  std::string directory_;
};

TEST_F(RequestLimits, NoneIsNone) {
  EXPECT_FALSE(limit(0, 0).limit);
  EXPECT_FALSE(limit(-1, -1).limit) << "before Linux 6.14";
  EXPECT_EQ(limit(0, 0).ask_seconds, 0);
  EXPECT_FALSE(limit(0, 0).longest_outage());
}

TEST_F(RequestLimits, TheMostHolds) {
  EXPECT_EQ(limit(60, 0).limit, seconds(60));
  EXPECT_EQ(limit(60, 0).ask_seconds, 0);
  EXPECT_EQ(limit(1, 0).limit, seconds(15)) << "the kernel looks every 15 s";
}

TEST_F(RequestLimits, TheDefaultIsAskedAway) {
  EXPECT_EQ(limit(0, 30).limit, seconds(65535));
  EXPECT_EQ(limit(0, 30).ask_seconds, 65535);
  EXPECT_EQ(limit(120, 30).limit, seconds(120));
  EXPECT_EQ(limit(120, 30).ask_seconds, 65535) << "or 30 would hold";
}

TEST_F(RequestLimits, AnswersComeInTime) {
  for (const int most : {15, 20, 60, 3600}) {
    const RequestLimit found = limit(most, 0);
    EXPECT_GE(*found.longest_outage(), milliseconds(2'000)) << most;
    // A silent brick is found out after 10 s.
    EXPECT_LE(*found.longest_outage() + seconds(12), *found.limit) << most;
  }
}

}  // namespace
}  // namespace brickfs
