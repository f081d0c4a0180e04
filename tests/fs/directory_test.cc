// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/directory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>

namespace brickfs {
namespace {

constexpr uint8_t kRegular = 8;
constexpr uint8_t kFolder = 4;

std::vector<std::string> names(const Directory& directory) {
  std::vector<std::string> all;
  for (auto entry = directory.after(0); entry; entry = directory.after(entry->cookie)) all.emplace_back(entry->name);
  return all;
}

TEST(Directory, KeepsTheOrderOfMaking) {
  Directory directory;
  EXPECT_TRUE(directory.empty());
  EXPECT_EQ(directory.insert("b", Ino{10}, kRegular), Directory::kFirstCookie);
  directory.insert("a", Ino{11}, kFolder);
  EXPECT_EQ(names(directory), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(directory.find("a")->ino, Ino{11});
  EXPECT_EQ(directory.find("a")->type, kFolder);
  EXPECT_FALSE(directory.find("c"));
}

TEST(Directory, NeverGivesACookieTwice) {
  Directory directory;
  const uint64_t first = directory.insert("a", Ino{10}, kRegular);
  EXPECT_TRUE(directory.erase("a"));
  EXPECT_FALSE(directory.erase("a"));
  EXPECT_GT(directory.insert("a", Ino{10}, kRegular), first);
}

TEST(Directory, ReplacingKeepsTheCookie) {
  Directory directory;
  const uint64_t cookie = directory.insert("a", Ino{10}, kRegular);
  directory.insert("b", Ino{11}, kRegular);
  directory.replace("a", Ino{12}, kFolder);
  EXPECT_EQ(directory.find("a")->ino, Ino{12});
  EXPECT_EQ(directory.find("a")->cookie, cookie);
}

TEST(Directory, RecoveryPutsEntriesInAnyOrderAndOverEachOther) {
  Directory directory;
  directory.put("c", Ino{3}, kRegular, 30);
  directory.put("a", Ino{1}, kRegular, 10);
  directory.put("b", Ino{2}, kRegular, 20);
  directory.put("a", Ino{4}, kFolder, 40);
  EXPECT_EQ(names(directory), (std::vector<std::string>{"b", "c", "a"}));
  EXPECT_EQ(directory.size(), 3u);
  EXPECT_EQ(directory.insert("d", Ino{5}, kRegular), 41u);
}

TEST(Directory, TwoNamesOnOneCookieAreBothKept) {
  Directory directory;
  directory.put("x", Ino{1}, kRegular, 7);
  directory.put("y", Ino{2}, kRegular, 7);
  EXPECT_EQ(directory.size(), 2u);
  EXPECT_TRUE(directory.erase("x"));
  EXPECT_EQ(directory.find("y")->ino, Ino{2});
  EXPECT_EQ(names(directory), (std::vector<std::string>{"y"}));
}

TEST(Directory, NamesAreBytes) {
  Directory directory;
  const std::string longest(255, '\xff');
  const std::string odd("\xc3\x28\n\t ", 5);
  directory.insert(longest, Ino{1}, kRegular);
  directory.insert(odd, Ino{2}, kRegular);
  EXPECT_EQ(directory.find(longest)->name, longest);
  EXPECT_EQ(directory.find(odd)->ino, Ino{2});
  EXPECT_FALSE(directory.find(longest.substr(1)));
}

// A reader who goes from cookie to cookie sees every entry that was there all the time, once, whatever else comes and
// goes.
TEST(Directory, SeeksStayValidWhileEntriesComeAndGo) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Directory directory;
  std::set<std::string> standing;
  for (int i = 0; i < 500; ++i) {
    standing.insert("stays" + std::to_string(i));
    directory.insert("stays" + std::to_string(i), Ino{1}, kRegular);
    directory.insert("goes" + std::to_string(i), Ino{2}, kRegular);
  }
  std::multiset<std::string> seen;
  int made = 500;
  uint64_t cookie = 0;
  for (auto entry = directory.after(cookie); entry && made < 3000; entry = directory.after(cookie)) {
    if (entry->ino == Ino{1}) seen.emplace(entry->name);
    cookie = entry->cookie;
    directory.erase("goes" + std::to_string(random() % made));
    directory.insert("goes" + std::to_string(made++), Ino{2}, kRegular);
  }
  EXPECT_EQ(seen, std::multiset<std::string>(standing.begin(), standing.end()));
}

TEST(Directory, EqualsAMapUnderRandomChanges) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Directory directory;
  std::map<std::string, std::pair<Ino, uint64_t>> model;  // inode, cookie
  uint64_t highest = 0;
  size_t bound = 4;  // goes up and down, across the point where the hash comes and goes
  for (int step = 0; step < 50'000; ++step) {
    if (step % 500 == 0) bound = size_t{1} << (1 + random() % 8);
    const std::string name = "n" + std::to_string(random() % bound);
    const Ino ino{1 + random() % 1000};
    const auto known = model.find(name);
    ASSERT_EQ(directory.find(name).has_value(), known != model.end());
    if (known == model.end()) {
      const uint64_t cookie = directory.insert(name, ino, kRegular);
      ASSERT_GT(cookie, highest);
      highest = cookie;
      model[name] = {ino, cookie};
    } else if (random() % 3 == 0) {
      directory.replace(name, ino, kRegular);
      known->second.first = ino;
    } else {
      ASSERT_TRUE(directory.erase(name));
      model.erase(known);
    }
    if (step % 500 == 499) {
      while (model.size() > bound) {
        ASSERT_TRUE(directory.erase(model.begin()->first));
        model.erase(model.begin());
      }
    }
    ASSERT_EQ(directory.size(), model.size());
  }
  std::map<uint64_t, std::string> by_cookie;
  for (const auto& [name, place] : model) by_cookie[place.second] = name;
  uint64_t cookie = 0;
  for (const auto& [expected, name] : by_cookie) {
    const auto entry = directory.after(cookie);
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->cookie, expected);
    EXPECT_EQ(entry->name, name);
    EXPECT_EQ(entry->ino, model[name].first);
    cookie = entry->cookie;
  }
  EXPECT_FALSE(directory.after(cookie));
}

TEST(Directory, OneWithManyEntriesStaysQuick) {
  const auto begin = std::chrono::steady_clock::now();
  constexpr uint64_t kEntries = 200'000;
  Directory directory;
  for (uint64_t i = 0; i < kEntries; ++i) directory.insert("file-" + std::to_string(i), Ino{i + 2}, kRegular);
  for (uint64_t i = 0; i < kEntries; i += 2) ASSERT_TRUE(directory.erase("file-" + std::to_string(i)));
  uint64_t seen = 0;
  for (auto entry = directory.after(0); entry; entry = directory.after(entry->cookie)) ++seen;
  EXPECT_EQ(seen, kEntries / 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "not a matter of microseconds each";
}

}  // namespace
}  // namespace brickfs
