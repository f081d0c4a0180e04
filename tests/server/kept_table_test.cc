// SPDX-License-Identifier: Apache-2.0
#include "server/store/kept_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/block_numbers.h"
#include "tests/support/crash_kept.h"

namespace brickfs::testing {
namespace {

constexpr uint32_t kTableFrames = 16;
constexpr KeptTable::Place kPlace{1, 2};

class KeptTableTest : public ::testing::Test {
 protected:
  StoreVolume record(const char* name, uint64_t epoch) {
    StoreVolume record{};
    std::strcpy(record.name.data(), name);
    record.quota_blocks = 100;
    record.epoch = epoch;
    record.holder_client = 77;
    std::strcpy(record.holder_name.data(), "somebody");
    record.lease_mode = 1;
    return record;
  }
  void make() { table_ = KeptTable::make(memory_, kTableFrames, kPlace); }
  // As another process would. The error, or 0.
  int open(KeptTable::Place place = kPlace) {
    table_.reset();
    why_.clear();
    contents_ = {};
    const auto frames = KeptTable::look(memory_, place, &why_);
    if (!frames.ok()) return frames.code();
    auto table = KeptTable::open(memory_, *frames, &contents_, &why_);
    if (!table.ok()) return table.code();
    table_ = *std::move(table);
    return 0;
  }
  template <typename Record>
  Record read(uint64_t at) {
    return load<Record>(std::span(memory_).subspan(at));
  }
  template <typename Record>
  void write(uint64_t at, Record record, uint64_t seed) {
    record.checksum = kept_checksum(record, seed);
    std::memcpy(&memory_[at], &record, sizeof(record));
  }
  std::array<uint64_t, 2> uuid() { return read<KeptHeader>(0).uuid; }
  void change_header(const std::function<void(KeptHeader&)>& change) {
    auto header = read<KeptHeader>(0);
    change(header);
    write(0, header, 0);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kept_frames_at(kTableFrames));
  std::unique_ptr<KeptTable> table_;
  KeptTable::Contents contents_;
  std::string why_;
};

TEST_F(KeptTableTest, WhatItSaysIsFoundByTheNextProcess) {
  make();
  const uint64_t boot = table_->boot();
  ASSERT_TRUE(table_->write_volume(0, record("default", 1)).ok());
  ASSERT_TRUE(table_->write_volume(5, record("other", 2)).ok());
  ASSERT_TRUE(table_->write_volume(5, record("other", 3)).ok());
  table_->add(5, blocks(10, 3), std::vector<uint32_t>{4, 2, 9});
  table_->add(0, blocks(10), std::vector<uint32_t>{0});
  table_->fill(9);
  table_->remove(5, blocks(11), std::vector<uint32_t>{2});
  ASSERT_EQ(open(), 0) << why_;
  EXPECT_EQ(table_->boot(), boot);
  EXPECT_FALSE(contents_.sealed);
  ASSERT_EQ(contents_.entries.size(), 3u);
  EXPECT_EQ(contents_.entries[0].frame, 0u);
  EXPECT_EQ(contents_.entries[0].volume, 0u);
  EXPECT_EQ(contents_.entries[1].frame, 4u);
  EXPECT_EQ(contents_.entries[1].address, blocks(10).start);
  EXPECT_EQ(contents_.entries[2].frame, 9u);
  EXPECT_EQ(contents_.entries[2].address, blocks(12).start);
  EXPECT_TRUE(contents_.entries[1].blank);
  EXPECT_FALSE(contents_.entries[2].blank);
  ASSERT_EQ(contents_.volumes.size(), kStoreVolumes);
  EXPECT_EQ(contents_.volumes[5].epoch, 3u);
  EXPECT_STREQ(contents_.volumes[5].holder_name.data(), "somebody");
  EXPECT_EQ(contents_.volumes[1].in_use, 0u);
}

TEST_F(KeptTableTest, IsLeftInOrderOnlyIfItWasSealedLast) {
  make();
  table_->seal();
  table_->seal();
  ASSERT_EQ(open(), 0) << why_;
  EXPECT_TRUE(contents_.sealed);
  ASSERT_EQ(open(), 0) << why_;  // who opened it served, and ended without a word
  EXPECT_FALSE(contents_.sealed);
}

TEST_F(KeptTableTest, OfAnotherFormatItIsRefusedUntouched) {
  make();
  const auto original = memory_;
  const auto expect = [&](int code, const std::function<void(KeptHeader&)>& change) {
    memory_ = original;
    change_header(change);
    const auto changed = memory_;
    EXPECT_EQ(open(), code) << why_;
    EXPECT_TRUE(code == 0 || memory_ == changed);
  };
  expect(ENOTSUP, [](KeptHeader& header) { header.version = 2; });
  expect(ENOTSUP, [](KeptHeader& header) { header.incompat_features = 2; });
  expect(ENOTSUP, [](KeptHeader& header) { header.block_bytes = 4096; });
  expect(EUCLEAN, [](KeptHeader& header) { header.magic[0] = 'B'; });
  expect(EUCLEAN, [](KeptHeader& header) { header.frames = 0; });
  expect(EUCLEAN, [](KeptHeader& header) { header.frames = kKeptFramesMost + 1; });
  expect(EUCLEAN, [](KeptHeader& header) { header.boot = 0; });
  expect(0, [](KeptHeader& header) { header.compat_features = 1; });
  // Another version may have another checksum, too.
  memory_ = original;
  memory_[8] = std::byte{9};
  EXPECT_EQ(open(), ENOTSUP);
  memory_ = original;
  EXPECT_EQ(open({kPlace.device, kPlace.inode + 1}), EXDEV);
  EXPECT_EQ(open({kPlace.device + 1, kPlace.inode}), EXDEV);
  EXPECT_TRUE(memory_ == original);
}

TEST_F(KeptTableTest, WhatDoesNotProveItselfIsNotChanged) {
  make();
  ASSERT_TRUE(table_->write_volume(0, record("default", 1)).ok());
  table_->add(0, blocks(0, 3), std::vector<uint32_t>{1, 2, 3});
  const auto original = memory_;
  const auto expect_lost = [&](uint64_t at, auto change) {
    memory_ = original;
    change(memory_[at]);
    const auto changed = memory_;
    EXPECT_EQ(open(), ENODATA) << at;
    EXPECT_TRUE(memory_ == changed) << at;
  };
  const auto flip = [](std::byte& byte) { byte ^= std::byte{16}; };
  const auto clear = [](std::byte& byte) { std::memset(&byte, 0, 8); };
  expect_lost(offsetof(KeptHeader, boot), flip);
  expect_lost(kKeptEntriesAt + 1 * sizeof(KeptEntry), flip);
  expect_lost(kKeptEntriesAt + 3 * sizeof(KeptEntry) + offsetof(KeptEntry, checksum), clear);  // it is missing
  expect_lost(kKeptEntriesAt + 7 * sizeof(KeptEntry) + offsetof(KeptEntry, checksum), flip);   // it was never there
  expect_lost(kKeptEntriesAt + 2 * sizeof(KeptEntry) + offsetof(KeptEntry, content), flip);
  expect_lost(kKeptEntriesAt + 2 * sizeof(KeptEntry) + offsetof(KeptEntry, content), clear);
  expect_lost(kKeptVolumesAt + sizeof(KeptVolume) + 3, flip);
  expect_lost(kKeptVolumesAt + sizeof(KeptVolume) + offsetof(KeptVolume, checksum), clear);
  for (const uint64_t copy : {0u, 1u}) expect_lost(kKeptSummariesAt + copy * sizeof(KeptSummary) + 16, flip);
}

TEST_F(KeptTableTest, NumbersBeyondTheirBoundsAreDamageHoweverTheyVerify) {
  make();
  ASSERT_TRUE(table_->write_volume(0, record("default", 1)).ok());
  table_->add(0, blocks(0, 2), std::vector<uint32_t>{1, 2});
  const auto original = memory_;
  const auto expect_entry = [&](const std::function<void(KeptEntry&)>& change) {
    memory_ = original;
    auto entry = read<KeptEntry>(kKeptEntriesAt + sizeof(KeptEntry));
    const uint64_t before = entry.checksum;
    entry.content = 0;
    change(entry);
    const uint64_t after = entry.checksum = kept_checksum(entry, uuid()[1] + 1);
    if (entry.content == 0) entry.content = kept_content(after, false);
    std::memcpy(&memory_[kKeptEntriesAt + sizeof(KeptEntry)], &entry, sizeof(entry));
    // The sum is made right, too: only the numbers are wrong.
    for (const uint64_t copy : {0u, 1u}) {
      auto summary = read<KeptSummary>(kKeptSummariesAt + copy * sizeof(KeptSummary));
      summary.sum ^= before ^ after;
      write(kKeptSummariesAt + copy * sizeof(KeptSummary), summary, uuid()[0]);
    }
    EXPECT_EQ(open(), ENODATA) << why_;
  };
  expect_entry([](KeptEntry& entry) { entry.address = kBlockBytes; });  // frame 2 has it
  expect_entry([](KeptEntry& entry) { entry.address = 512; });
  expect_entry([](KeptEntry& entry) { entry.volume = 1; });
  expect_entry([](KeptEntry& entry) { entry.volume = kStoreVolumes; });
  const auto expect_summary = [&](const std::function<void(KeptSummary&)>& change) {
    memory_ = original;
    const uint64_t one = read<KeptSummary>(kKeptSummariesAt).generation;
    const uint64_t other = read<KeptSummary>(kKeptSummariesAt + sizeof(KeptSummary)).generation;
    const uint64_t at = kKeptSummariesAt + (other > one ? sizeof(KeptSummary) : 0);
    auto summary = read<KeptSummary>(at);
    change(summary);
    write(at, summary, uuid()[0]);
    EXPECT_EQ(open(), ENODATA) << why_;
  };
  expect_summary([](KeptSummary& summary) { summary.generation += 2; });
  expect_summary([](KeptSummary& summary) { summary.generation += 1; });
  expect_summary([](KeptSummary& summary) { summary.state = static_cast<KeptState>(3); });
  expect_summary([](KeptSummary& summary) { summary.change = static_cast<KeptChange>(4); });
  expect_summary([](KeptSummary& summary) { summary.volume = kStoreVolumes; });
  expect_summary([](KeptSummary& summary) { summary.change = KeptChange::kBlocks; });  // none
  expect_summary([](KeptSummary& summary) {
    summary.state = KeptState::kSealed;
    summary.change = KeptChange::kVolume;
  });
  const auto expect_volume = [&](const std::function<void(StoreVolume&)>& change) {
    memory_ = original;
    ASSERT_EQ(open(), 0);
    auto broken = record("default", 1);
    change(broken);
    ASSERT_TRUE(table_->write_volume(0, broken).ok());
    EXPECT_EQ(open(), ENODATA) << why_;
  };
  expect_volume([](StoreVolume& volume) { volume.name[0] = '/'; });
  expect_volume([](StoreVolume& volume) { volume.name.fill('a'); });
  expect_volume([](StoreVolume& volume) { volume.epoch = kStoreNumbers + 1; });
  expect_volume([](StoreVolume& volume) { volume.lease_mode = 9; });
  const auto expect_key = [&](uint32_t volume, uint32_t rights) {
    memory_ = original;
    ASSERT_EQ(open(), 0);
    const VolumeKey key{KeyId{1}, KeyRights{rights}, 0, Secret{"a key of a volume"}};
    ASSERT_TRUE(table_->write_key(7, volume, key).ok());
    EXPECT_EQ(open(), ENODATA) << why_;
  };
  expect_key(0, 3);
  expect_key(5, 1);  // which there is not
  expect_key(kStoreVolumes, 1);
}

// What it was made over is forgotten from the first store on.
TEST_F(KeptTableTest, MadeAnewItIsEmptyOrNotThere) {
  make();
  ASSERT_TRUE(table_->write_volume(0, record("default", 1)).ok());
  table_->add(0, blocks(0, 2), std::vector<uint32_t>{1, 2});
  const uint64_t boot = table_->boot();
  make();
  EXPECT_NE(table_->boot(), boot);
  ASSERT_EQ(open(), 0) << why_;
  EXPECT_TRUE(contents_.entries.empty());
  EXPECT_EQ(contents_.volumes[0].in_use, 0u);
  std::memset(&memory_[offsetof(KeptHeader, checksum)], 0, 8);  // as in the middle of make()
  EXPECT_EQ(open(), ENODATA);
}

TEST(KeptTableCrash, KilledBehindAnyInstructionItProvesItself) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  KeptExplorer explorer;
  EXPECT_EQ(explorer.run(seed), "");
  if (explorer.cannot_step()) GTEST_SKIP() << "ptrace(2) is not allowed here";
  EXPECT_GT(explorer.states(), 100u);
}

}  // namespace
}  // namespace brickfs::testing
