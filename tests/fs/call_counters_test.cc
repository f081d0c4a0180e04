// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/call_counters.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace brickfs::shared {
namespace {

TEST(CallCounters, EachKindHasANameOfItsOwn) {
  CallCounters counters;
  for (size_t kind = 0; kind < kKinds; ++kind) counters.count(kind, std::chrono::microseconds(kind), 0, 0);
  counters.count(kKinds, std::chrono::microseconds(1), 0, 0);  // none of ours
  std::set<std::string> names;
  for (const CallCounters::Call& call : counters.calls()) {
    EXPECT_EQ(call.counts.count(), 1U) << call.name;
    EXPECT_EQ(call.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), call.name.npos) << call.name;
    names.insert(call.name);
  }
  EXPECT_EQ(names.size(), kKinds - 1);
  EXPECT_FALSE(names.contains("await_recalls")) << "it is always under way";
  for (const char* const name : {"lookup", "get_attributes", "read_directory", "set_lock"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(CallCounters, WhatIsNotThereIsNoFailure) {
  CallCounters counters;
  constexpr std::chrono::microseconds kTook(3);
  counters.count(kind_of<Lookup>(), kTook, ENOENT, 0);
  counters.count(kind_of<Lookup>(), kTook, EIO, 0);
  counters.count(kind_of<SetLock>(), kTook, EAGAIN, 0);
  counters.count(kind_of<GetXattr>(), kTook, ENODATA, 0);
  counters.count(kind_of<Write>(), kTook, ENOSPC, 4096);
  for (const CallCounters::Call& call : counters.calls()) {
    EXPECT_EQ(call.counts.failures, call.name == "lookup" || call.name == "write" ? 1U : 0U) << call.name;
    EXPECT_EQ(call.counts.bytes, call.name == "write" ? 4096U : 0U);
  }
}

}  // namespace
}  // namespace brickfs::shared
