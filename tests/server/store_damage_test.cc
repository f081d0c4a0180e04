// SPDX-License-Identifier: Apache-2.0
// A store whose header, records or table are not what was written: of one copy all of it is mended; of both a block, or
// a volume's name, is lost, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/service/brick_service.h"
#include "server/service/embedded_brick.h"
#include "server/store/store_file.h"
#include "tests/support/brick_factory.h"
#include "tests/support/crash_device.h"

namespace brickfs {
namespace {

using Damage = StoreFile::Damage;

constexpr uint64_t kSlotsOfDamaged = 4;
constexpr uint32_t kBlocks = 3;
constexpr uint64_t kTableEnd = kStoreEntriesAt + kSlotsOfDamaged * sizeof(StoreEntry);

BlockAddress address_of(uint32_t block) { return block_after(BlockAddress{0}, 5 + block); }

void change(DiskImage& image, uint64_t offset, std::byte by) {
  const uint64_t sector = offset / kDiskSectorBytes;
  const DiskSectorRef before = image.at(sector);
  auto bytes = std::make_shared<DiskSector>(before ? *before : DiskSector{});
  (*bytes)[offset % kDiskSectorBytes] ^= by;
  image.put(sector, bytes);
}

void put(DiskImage& image, uint64_t offset, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::byte before{};
    image.read(offset + i, std::span(&before, 1));
    if (before != bytes[i]) change(image, offset + i, before ^ bytes[i]);
  }
}

class StoreDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    CrashDisk disk((DiskImage()));
    const auto store = open(disk, kSlotsOfDamaged * kBlockBytes);
    ASSERT_TRUE(store) << why_;
    for (const uint32_t id : {0u, 7u}) {
      StoreVolume volume{};
      (id == 0 ? std::string("default") : std::string("other")).copy(volume.name.data(), 63);
      volume.quota_blocks = 100 + id;
      volume.epoch = 40;
      ASSERT_TRUE(store->write_volume(id, volume).ok());
    }
    for (uint32_t block = 0; block < kBlocks; ++block) {
      ASSERT_TRUE(store->write_entry({0, address_of(block), block}).ok());
      ASSERT_TRUE(store->write(block, 0, std::vector(512, std::byte(block + 1))).ok());
    }
    ASSERT_TRUE(store->sync().ok());
    image_ = disk.seen();
    copy_at_ = copy_begins(header_of(image_));
  }
  std::unique_ptr<StoreFile> open(CrashDisk& disk, uint64_t bytes = 0, Damage damage = Damage::kKeep) {
    disk.recording = false;
    auto store = StoreFile::open(std::make_unique<CrashDevice>(disk), "test", bytes, &why_, damage);
    code_ = store.code();
    return store.ok() ? std::move(*store) : nullptr;
  }
  static StoreHeader header_of(const DiskImage& image) {
    StoreHeader header{};
    image.read(0, std::as_writable_bytes(std::span(&header, 1)));
    return header;
  }
  // What is wrong with it, if it is not what SetUp() left.
  static std::string differs(StoreFile& store) {
    const StoreFile::Contents contents = store.take_contents();
    std::string wrong;
    if (contents.entries.size() != kBlocks || !contents.set_aside.empty()) return "the number of entries";
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const auto& entry = contents.entries[block];
      if (entry.volume != 0 || entry.slot != block || entry.address != address_of(block)) wrong += "an entry; ";
      std::byte byte{};
      if (!store.read(block, 0, std::span(&byte, 1)).ok() || byte != std::byte(block + 1)) wrong += "a slot; ";
    }
    for (uint32_t id = 0; id < kStoreVolumes; ++id) {
      const StoreVolume& volume = contents.volumes[id];
      const std::string name = id == 0 ? "default" : id == 7 ? "other" : "";
      if (volume.name.data() != name || (!name.empty() && (volume.epoch != 40 || volume.quota_blocks != 100 + id)))
        wrong += "volume " + std::to_string(id) + "; ";
    }
    return wrong;
  }
  void damage_both(uint64_t offset, std::byte by = std::byte{0x10}) {
    change(image_, offset, by);
    change(image_, copy_at_ + offset, by);
  }

  DiskImage image_;
  uint64_t copy_at_ = 0;
  std::string why_;
  int code_ = 0;
};

// Every byte that is not zero, and of the others one here and there: in each one bit.
TEST_F(StoreDamage, AnyBitOfOneCopyMayBeAnother) {
  std::mt19937 random(20);  // NOLINT(cert-msc*): the same each time
  std::vector<std::byte> bytes(copy_at_ + kTableEnd);
  image_.read(0, bytes);
  size_t tried = 0;
  for (const uint64_t copy : {uint64_t{0}, copy_at_}) {
    for (uint64_t at = copy; at < copy + kTableEnd; ++at) {
      if (bytes[at] == std::byte{0} && at % 397 != 0) continue;
      DiskImage damaged = image_;
      change(damaged, at, std::byte{1} << random() % 8);
      CrashDisk disk(std::move(damaged));
      const auto store = open(disk);
      ASSERT_TRUE(store) << "at " << at << ": " << why_;
      ASSERT_EQ(differs(*store), "") << "at " << at;
      std::vector<std::byte> mended(bytes.size());
      disk.seen().read(0, mended);
      ASSERT_TRUE(mended == bytes) << "at " << at;
      ++tried;
    }
  }
  EXPECT_GT(tried, 1000u);
}

TEST_F(StoreDamage, ASectorOfOneCopyMayBeLost) {
  for (const uint64_t copy : {uint64_t{0}, copy_at_}) {
    for (uint64_t at = copy; at < copy + kTableEnd; at += kDiskSectorBytes) {
      DiskImage damaged = image_;
      if (damaged.at(at / kDiskSectorBytes) == nullptr) continue;
      damaged.put(at / kDiskSectorBytes, nullptr);
      CrashDisk disk(std::move(damaged));
      const auto store = open(disk);
      ASSERT_TRUE(store) << "at " << at << ": " << why_;
      EXPECT_EQ(differs(*store), "") << "at " << at;
    }
  }
}

// A disk that does not give a sector, in a device that is whole otherwise.
class UnreadableSector final : public StoreDevice {
 public:
  UnreadableSector(CrashDisk& disk, uint64_t offset) : device_(disk), bad_(offset) {}
  Result<uint64_t> size_bytes() const override { return device_.size_bytes(); }
  Status read(uint64_t offset, std::span<std::byte> into) const override {
    if (offset <= bad_ && bad_ < offset + into.size()) return Error(EIO, "a bad sector");
    return device_.read(offset, into);
  }
  Status write(uint64_t offset, std::span<const std::byte> from) override {
    if (offset <= bad_ + kDiskSectorBytes && bad_ < offset + from.size()) return Error(EIO, "a bad sector");
    return device_.write(offset, from);
  }
  Status reserve(uint64_t offset, uint64_t length_bytes) override { return device_.reserve(offset, length_bytes); }
  Status punch(uint64_t offset, uint64_t length_bytes) override { return device_.punch(offset, length_bytes); }
  Status grow(uint64_t size_bytes) override { return device_.grow(size_bytes); }
  Status sync() override { return device_.sync(); }
  void forget_cache() override { device_.forget_cache(); }
  uint64_t room_bytes() const override { return device_.room_bytes(); }

 private:
  CrashDevice device_;
  const uint64_t bad_;
};

TEST_F(StoreDamage, ATableThatCannotBeReadInOneCopyIsReadInTheOther) {
  for (const uint64_t at : {kStoreVolumesAt, kStoreEntriesAt, copy_at_ + kStoreVolumesAt, copy_at_ + kStoreEntriesAt}) {
    CrashDisk disk(image_);
    disk.recording = false;
    auto store = StoreFile::open(std::make_unique<UnreadableSector>(disk, at), "test", 0, &why_);
    ASSERT_TRUE(store.ok()) << "at " << at << ": " << why_;
    EXPECT_EQ(differs(**store), "") << "at " << at;
  }
}

TEST_F(StoreDamage, AnEntryDamagedTwiceCostsItsBlock) {
  damage_both(kStoreEntriesAt + sizeof(StoreEntry) + 3);
  CrashDisk disk(image_);
  for (int round = 0; round < 2; ++round) {
    const auto store = open(disk);
    ASSERT_TRUE(store) << why_;
    const StoreFile::Contents contents = store->take_contents();
    EXPECT_EQ(contents.entries.size(), kBlocks - 1);
    EXPECT_EQ(contents.set_aside, std::vector<uint32_t>{1}) << "until somebody gives it up";
    std::byte byte{};
    ASSERT_TRUE(store->read(1, 0, std::span(&byte, 1)).ok());
    EXPECT_EQ(byte, std::byte{2}) << "what is in the slot stays";
  }
  const auto repaired = open(disk, 0, Damage::kGiveUp);
  ASSERT_TRUE(repaired) << why_;
  EXPECT_TRUE(repaired->take_contents().set_aside.empty());
  std::byte byte{};
  ASSERT_TRUE(repaired->read(1, 0, std::span(&byte, 1)).ok());
  EXPECT_EQ(byte, std::byte{0}) << "the next block there is zeros";
  EXPECT_TRUE(open(disk)->take_contents().set_aside.empty());
}

// The brick itself: it starts, has the other blocks, and gives the slot to nobody.
TEST_F(StoreDamage, ABrickStartsWithoutTheBlock) {
  damage_both(kStoreEntriesAt + 9);
  CrashDisk disk(image_);
  disk.recording = false;
  BrickConfig config;
  config.memory_bytes = 2 * kBlockBytes;
  config.store_path = "test";
  for (const bool repair : {false, true}) {
    config.repair_store = repair;
    std::shared_ptr<BrickService> service =
        std::move(*BrickService::open(config, std::make_unique<CrashDevice>(disk), &why_));
    const auto brick = make_embedded_brick(service);
    OpenRequest request;
    request.client = ClientId{1};
    ASSERT_TRUE(brick->open(request, nullptr).ok());
    EXPECT_EQ(brick->list(BlockAddress{0})->extents, (std::vector<BlockRange>{{address_of(1), 2}}));
    EXPECT_EQ(brick->stat()->allocatable_blocks, repair ? 2u : 1u);
    EXPECT_EQ(brick->alloc({BlockAddress{0}, 2}).code(), repair ? 0 : ENOSPC);
  }
}

TEST_F(StoreDamage, ARecordDamagedTwiceCostsTheVolumesName) {
  damage_both(kStoreVolumesAt + 3);                               // default's
  damage_both(kStoreVolumesAt + 7 * sizeof(StoreVolume) + 70);    // of one without blocks
  damage_both(kStoreVolumesAt + 100 * sizeof(StoreVolume) + 17);  // of none
  CrashDisk disk(image_);
  for (int round = 0; round < 2; ++round) {
    const auto store = open(disk);
    ASSERT_TRUE(store) << why_;
    const StoreFile::Contents contents = store->take_contents();
    EXPECT_STREQ(contents.volumes[0].name.data(), "damaged-0");
    EXPECT_GT(contents.volumes[0].epoch, 1'000'000'000'000'000u) << "one that nobody had";
    EXPECT_EQ(contents.volumes[0].quota_blocks, UINT64_MAX);
    EXPECT_EQ(contents.volumes[7].in_use, 0u);
    EXPECT_EQ(contents.volumes[100].in_use, 0u);
    EXPECT_EQ(contents.entries.size(), kBlocks);
  }
}

TEST_F(StoreDamage, AHeaderDamagedTwiceIsTheEnd) {
  damage_both(40);
  // What a client has stored is no header, whatever it looks like.
  StoreHeader forged{};
  forged.magic = kStoreMagic;
  forged.version = kStoreVersion;
  forged.block_bytes = kBlockBytes;
  forged.uuid = {1, 2};
  forged.slots_at = 2 * header_of(image_).slots_at;
  forged.incompat_features = kStoreCopied;
  forged = resized_header(forged, 1);
  put(image_, forged.slots_at / 2, bytes_of(forged));
  CrashDisk disk(image_);
  EXPECT_FALSE(open(disk));
  EXPECT_EQ(code_, EUCLEAN);
  EXPECT_NE(why_.find("damaged header"), std::string::npos) << why_;
}

// --- stores of a brickd that knew no second copy

class FormerStore : public StoreDamage {
 protected:
  // What SetUp() made, as that one had it, its slots behind a table for so many.
  DiskImage former(uint64_t slots_at) const {
    StoreHeader header = header_of(image_);
    DiskImage image;
    image.size_bytes = slots_at + kSlotsOfDamaged * kBlockBytes;
    std::vector<std::byte> bytes(kTableEnd);
    image_.read(0, bytes);
    put(image, 0, bytes);
    for (uint32_t block = 0; block < kBlocks; ++block) {
      image.put((slots_at + block * kBlockBytes) / kDiskSectorBytes,
                image_.at((slots_begin(header) + block * kBlockBytes) / kDiskSectorBytes));
    }
    header.incompat_features = 0;
    header.slots_at = slots_at;
    header.resize_to = 0;
    header = resized_header(header, kSlotsOfDamaged);
    put(image, 0, bytes_of(header));
    return image;
  }
};

TEST_F(FormerStore, GetsItsSecondCopyWhereItIs) {
  CrashDisk disk(former(kBlockBytes));
  {
    const auto store = open(disk);
    ASSERT_TRUE(store) << why_;
    EXPECT_EQ(differs(*store), "");
  }
  const StoreHeader header = header_of(disk.seen());
  EXPECT_NE(header.incompat_features & kStoreCopied, 0u);
  std::vector<std::byte> first(kTableEnd);
  std::vector<std::byte> second(kTableEnd);
  disk.seen().read(0, first);
  disk.seen().read(copy_begins(header), second);
  EXPECT_TRUE(first == second);
  DiskImage damaged = disk.seen();
  damaged.put(0, nullptr);
  damaged.put(kStoreVolumesAt / kDiskSectorBytes, nullptr);
  damaged.put(kStoreEntriesAt / kDiskSectorBytes, nullptr);
  CrashDisk again(std::move(damaged));
  const auto store = open(again);
  ASSERT_TRUE(store) << why_;
  EXPECT_EQ(differs(*store), "");
}

TEST_F(FormerStore, WithoutRoomForItGoesOnAndLosesABlockAtMost) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path("store");
  const uint64_t slots = (kBlockBytes / 2 - kStoreEntriesAt) / sizeof(StoreEntry) + 1;
  StoreHeader header = header_of(image_);
  header.incompat_features = 0;
  header.slots_at = 0;
  header.slots = slots;
  header.checksum = store_checksum(header, 0);
  const auto write = [&path](uint64_t offset, std::span<const std::byte> bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  std::ofstream(path).flush();
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::resize_file(path, store_slots_at(slots) + slots * kBlockBytes);
  std::vector<std::byte> bytes(kTableEnd);
  image_.read(0, bytes);
  write(0, bytes);
  write(0, bytes_of(header));
  const std::byte nonsense{0x55};
  write(kStoreEntriesAt + 5, std::span(&nonsense, 1));
  for (int round = 0; round < 2; ++round) {
    const auto store = StoreFile::open(path, 0, &why_);
    ASSERT_TRUE(store.ok()) << why_;
    const StoreFile::Contents contents = (*store)->take_contents();
    EXPECT_EQ(contents.entries.size(), kBlocks - 1);
    EXPECT_EQ(contents.set_aside, std::vector<uint32_t>{0});
  }
}

}  // namespace
}  // namespace brickfs
