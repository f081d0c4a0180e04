// SPDX-License-Identifier: Apache-2.0
// A store is given another size. That no power loss harms it on the way: tests/server/store_crash_test.cc and
// brickfs-crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/store/store_file.h"
#include "tests/support/brick_factory.h"

namespace brickfs {
namespace {

constexpr uint64_t kFewSlots = 8;
constexpr uint64_t kHeaderSector = 512;

class StoreResize : public ::testing::Test {
 protected:
  std::unique_ptr<StoreFile> open(uint64_t slots) {
    why_.clear();
    auto store = StoreFile::open(path_, slots * kBlockBytes, &why_);
    return store.ok() ? *std::move(store) : nullptr;
  }
  int code(uint64_t slots) {
    why_.clear();
    return StoreFile::open(path_, slots * kBlockBytes, &why_).code();
  }
  // With a block on slot 2.
  void make(uint64_t slots = kFewSlots) {
    const auto store = open(slots);
    ASSERT_NE(store, nullptr) << why_;
    StoreVolume volume{};
    volume.name = {'d', 'e', 'f', 'a', 'u', 'l', 't'};
    ASSERT_TRUE(store->write_volume(0, volume).ok());
    ASSERT_TRUE(store->write_entry({0, BlockAddress{0}, 2}).ok());
    ASSERT_TRUE(store->write(2, 4096, bytes_).ok());
    ASSERT_TRUE(store->sync().ok());
  }
  void expect_whole(uint64_t slots) {
    const auto store = open(0);
    ASSERT_NE(store, nullptr) << why_;
    EXPECT_EQ(store->slots(), slots);
    const auto contents = store->take_contents();
    ASSERT_EQ(contents.entries.size(), 1u);
    EXPECT_EQ(contents.entries[0].slot, 2u);
    std::vector<std::byte> found(bytes_.size());
    ASSERT_TRUE(store->read(2, 4096, found).ok());
    EXPECT_EQ(found, bytes_);
    ASSERT_TRUE(store->read(static_cast<uint32_t>(slots - 1), kBlockBytes - found.size(), found).ok());
    EXPECT_TRUE(std::ranges::all_of(found, [](std::byte byte) { return byte == std::byte{0}; }));
  }
  std::string header() {
    std::string bytes(kStoreHeaderBytes, 0);
    std::ifstream(path_, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  void put(const std::string& bytes, uint64_t from, uint64_t end) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(from));
    file.write(bytes.data() + from, static_cast<std::streamsize>(end - from));
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.path("store");
  const std::vector<std::byte> bytes_ = std::vector<std::byte>(1000, std::byte{9});
  std::string why_;
};

TEST_F(StoreResize, GrowsAndKeepsWhatItHas) {
  make();
  ASSERT_EQ(code(2 * kFewSlots), 0) << why_;
  expect_whole(2 * kFewSlots);
  ASSERT_EQ(code(5 * kFewSlots), 0) << why_;
  expect_whole(5 * kFewSlots);
  const auto store = open(0);
  ASSERT_TRUE(store->write_entry({0, block_after(BlockAddress{0}, 1), 5 * kFewSlots - 1}).ok());
  ASSERT_TRUE(store->write(5 * kFewSlots - 1, 0, bytes_).ok());
  EXPECT_TRUE(store->sync().ok());
}

TEST_F(StoreResize, BecomesSmallerWhereWhatIsBeyondIsFree) {
  make();
  ASSERT_EQ(code(3), 0) << why_;
  expect_whole(3);
  EXPECT_EQ(code(2), EINVAL);
  EXPECT_NE(why_.find("1 block(s) in use lie beyond"), std::string::npos) << why_;
  expect_whole(3);
  ASSERT_EQ(code(kFewSlots), 0) << why_;
  expect_whole(kFewSlots);
}

TEST_F(StoreResize, WhatLayBeyondIsZerosWhenItGrowsAgain) {
  make();
  {
    const auto store = open(0);
    ASSERT_TRUE(store->write(kFewSlots - 1, kBlockBytes - bytes_.size(), bytes_).ok());  // of a block that was freed
    ASSERT_TRUE(store->sync().ok());
  }
  ASSERT_EQ(code(4), 0) << why_;
  ASSERT_EQ(code(kFewSlots), 0) << why_;
  expect_whole(kFewSlots);
}

TEST_F(StoreResize, GrowsAsFarAsItsTableHasRoom) {
  make();
  const uint64_t most = (store_slots_at(1) - kStoreEntriesAt) / sizeof(StoreEntry);
  EXPECT_EQ(code(most + 1), EINVAL);
  EXPECT_NE(why_.find("made to grow to"), std::string::npos) << why_;
  ASSERT_EQ(code(most), 0) << why_;
  expect_whole(most);
}

TEST_F(StoreResize, ALargeStoreIsMadeToGrowEightfold) {
  constexpr uint64_t kLarge = 10'000;
  ASSERT_NE(store_slots_at(kLarge), store_slots_at(kStoreGrowth * kLarge));
  make(kLarge);
  expect_whole(kLarge);
  ASSERT_EQ(code(kStoreGrowth * kLarge), 0) << why_;
  expect_whole(kStoreGrowth * kLarge);
  ASSERT_EQ(code(kLarge / 2), 0) << why_;
  expect_whole(kLarge / 2);
}

TEST_F(StoreResize, ComesBehindWhatClientsLeftUncommitted) {
  const std::vector<std::byte> newer(kBlockBytes, std::byte{7});
  for (const uint64_t slots : {kFewSlots - 1, kFewSlots + 1}) {
    std::filesystem::remove(path_);
    make();
    {
      const auto store = open(0);
      const auto shadow = store->write_shadow(2, newer);
      ASSERT_TRUE(shadow.ok());
      ASSERT_TRUE(store->leave_shadows({&*shadow, 1}).ok());
    }
    const auto store = open(slots);
    ASSERT_NE(store, nullptr) << why_;
    EXPECT_EQ(store->slots(), slots);
    std::vector<std::byte> found(kBlockBytes);
    ASSERT_TRUE(store->read(2, 0, found).ok());
    EXPECT_EQ(found, newer);
  }
}

// Sector by sector of the header, as brickd changes it.
TEST_F(StoreResize, AChangeThatWasCutOffIsFinished) {
  make();
  const std::string before = header();
  ASSERT_EQ(code(2 * kFewSlots), 0) << why_;
  const std::string after = header();
  put(before, 0, kHeaderSector);
  expect_whole(2 * kFewSlots);
  EXPECT_EQ(header(), after);
  ASSERT_TRUE(open(0)->leave_shadows({}).ok());
  EXPECT_NE(header(), after);
  put(after, 0, kHeaderSector);
  expect_whole(2 * kFewSlots);
  EXPECT_EQ(header(), after);
  put(before, 0, kStoreHeaderBytes);
  expect_whole(kFewSlots);
  std::string damaged = after;
  damaged[40] ^= 1;
  put(damaged, 0, kStoreHeaderBytes);
  EXPECT_EQ(code(0), 0) << "the second copy is whole";
  EXPECT_EQ(header(), before);
}

// --- numbers that verify, and are out of bounds

TEST_F(StoreResize, WhatHasNumbersOutOfBoundsIsLeftOut) {
  const auto left_out = [this](const std::function<void(StoreFile&)>& spoil) {
    std::filesystem::remove(path_);
    make();
    {
      const auto store = open(0);
      spoil(*store);
      EXPECT_TRUE(store->sync().ok());
    }
    const StoreFile::Contents left = open(0)->take_contents();
    return !left.set_aside.empty() || std::string_view(left.volumes[0].name.data()).starts_with("damaged-");
  };
  const auto volume = [](const std::function<void(StoreVolume&)>& spoil) {
    return [spoil](StoreFile& store) {
      StoreVolume record{};
      record.name = {'d', 'e', 'f', 'a', 'u', 'l', 't'};
      spoil(record);
      EXPECT_TRUE(store.write_volume(0, record).ok());
    };
  };
  EXPECT_FALSE(left_out(volume([](StoreVolume& record) { record.epoch = INT64_MAX; })));
  EXPECT_TRUE(left_out(volume([](StoreVolume& record) { record.epoch = uint64_t{1} << 63; })));
  EXPECT_TRUE(left_out(volume([](StoreVolume& record) { record.lease_mode = 3; })));
  EXPECT_TRUE(left_out(volume([](StoreVolume& record) { record.name[3] = '\x1b'; })));
  EXPECT_TRUE(left_out(volume([](StoreVolume& record) { record.name[3] = '\x9b'; })));
  EXPECT_TRUE(left_out([](StoreFile& store) { EXPECT_TRUE(store.write_entry({0, BlockAddress{4096}, 3}).ok()); }));
  EXPECT_TRUE(left_out([](StoreFile& store) {
    EXPECT_TRUE(store.write_entry({kStoreVolumes, BlockAddress{0}, 3}).ok());
  }));
}

}  // namespace
}  // namespace brickfs
