// SPDX-License-Identifier: Apache-2.0
// What a store accepts, refuses and leaves alone.
#include "server/store/store_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "server/service/brick_service.h"
#include "tests/support/brick_factory.h"

namespace brickfs {
namespace {

constexpr uint64_t kSlots = 8;
constexpr uint64_t kBytes = kSlots * kBlockBytes;

class StoreFileTest : public ::testing::Test {
 protected:
  int open_code(uint64_t bytes = 0) {
    const auto store = StoreFile::open(path_, bytes, &why_);
    EXPECT_EQ(store.ok(), why_.empty()) << why_;
    const std::string why = std::exchange(why_, {});
    last_why_ = why;
    EXPECT_EQ(why.find('\n'), std::string::npos);
    return store.code();
  }
  // A store with a volume 0, whose blocks 0, 2 and 4 MiB are on slots 0, 1 and 2.
  void make_store() {
    auto store = StoreFile::open(path_, kBytes, &why_);
    ASSERT_TRUE(store.ok()) << why_;
    StoreVolume volume{};
    volume.name = {'d', 'e', 'f', 'a', 'u', 'l', 't'};
    ASSERT_TRUE((*store)->write_volume(0, volume).ok());
    for (uint32_t slot = 0; slot < 3; ++slot) {
      ASSERT_TRUE((*store)->write_entry({0, block_after(BlockAddress{0}, slot), slot}).ok());
    }
    ASSERT_TRUE((*store)->sync().ok());
  }
  void flip(uint64_t offset) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.path("store");
  std::string why_;
  std::string last_why_;
};

TEST_F(StoreFileTest, IsMadeOnlyWithASizeAndOnlyWhereNothingIs) {
  EXPECT_EQ(open_code(), ENOENT);
  EXPECT_EQ(open_code(kBlockBytes - 1), EINVAL);
  std::filesystem::remove(path_);
  std::ofstream(path_).put('x');
  EXPECT_EQ(open_code(kBytes), EUCLEAN);
  EXPECT_EQ(std::filesystem::file_size(path_), 1u);
  std::filesystem::resize_file(path_, kBytes);
  EXPECT_EQ(open_code(kBytes), EUCLEAN);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(open_code(), EINVAL);
  EXPECT_EQ(open_code(kBytes), 0);
  EXPECT_EQ(open_code(), 0);
  EXPECT_EQ(open_code(kBytes), 0);
}

TEST_F(StoreFileTest, IsSparse) {
  make_store();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_size), kBytes);
  EXPECT_LT(static_cast<uint64_t>(info.st_blocks) * 512, kBlockBytes);
}

TEST_F(StoreFileTest, RefusesWhatIsNoRegularFile) {
  std::filesystem::create_directory(path_);
  EXPECT_NE(open_code(kBytes), 0);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/dev/null", path_);
  EXPECT_EQ(open_code(kBytes), EINVAL);
}

TEST_F(StoreFileTest, FollowsALinkToAFileThatIsThereAndNoOther) {
  const std::string other = directory_.path("other");
  std::filesystem::create_symlink(other, path_);
  EXPECT_EQ(open_code(kBytes), EEXIST);
  EXPECT_NE(last_why_.find("leads nowhere"), std::string::npos) << last_why_;
  EXPECT_FALSE(std::filesystem::exists(other));
  std::ofstream(other).close();
  EXPECT_EQ(open_code(kBytes), 0);
  EXPECT_EQ(open_code(), 0);
}

TEST_F(StoreFileTest, RefusesWhatOthersOwnOrMayWriteTo) {
  make_store();
  ASSERT_EQ(chmod(path_.c_str(), 0602), 0);
  EXPECT_EQ(open_code(), EPERM);
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(open_code(), 0);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(path_.c_str(), 1234, 0), 0);
  EXPECT_EQ(open_code(), EPERM);
  EXPECT_NE(last_why_.find("another user"), std::string::npos) << last_why_;
}

TEST_F(StoreFileTest, IsNotHeldByAPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  alarm(20);
  EXPECT_EQ(open_code(kBytes), EINVAL);
  alarm(0);
}

TEST_F(StoreFileTest, KeepsASecondOpenerOut) {
  make_store();
  {
    const auto first = StoreFile::open(path_, 0, &why_);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(open_code(), EBUSY);
    EXPECT_NE(last_why_.find("in use"), std::string::npos);
  }
  EXPECT_EQ(open_code(), 0);
}

TEST_F(StoreFileTest, FinishesAnInterruptedMaking) {
  make_store();
  std::filesystem::resize_file(path_, kStoreHeaderBytes);
  auto store = StoreFile::open(path_, 0, &why_);
  ASSERT_TRUE(store.ok()) << why_;
  EXPECT_EQ((*store)->slots(), kSlots);
  EXPECT_TRUE((*store)->take_contents().entries.empty());
  EXPECT_TRUE((*store)->write((kSlots - 1), 0, std::vector<std::byte>(kBlockBytes)).ok());
}

TEST_F(StoreFileTest, RefusesACutOffStore) {
  make_store();
  const uint64_t whole = std::filesystem::file_size(path_);
  const std::string original = directory_.path("original");
  std::filesystem::copy_file(path_, original);
  for (const uint64_t size : {uint64_t{1}, kStoreHeaderBytes - 1, kStoreHeaderBytes + 1, kStoreEntriesAt, whole - 1}) {
    std::filesystem::copy_file(original, path_, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(path_, size);
    EXPECT_EQ(open_code(), EUCLEAN) << "at " << size;
    EXPECT_EQ(std::filesystem::file_size(path_), size);
  }
}

TEST_F(StoreFileTest, RefusesNewerFormats) {
  make_store();
  const auto with_header = [&](const std::function<void(StoreHeader&)>& change) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    StoreHeader header;
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    const StoreHeader original = header;
    change(header);
    header.checksum = store_checksum(header, 0);
    file.seekp(0).write(reinterpret_cast<const char*>(&header), sizeof(header)).flush();
    const int code = open_code();
    file.seekp(0).write(reinterpret_cast<const char*>(&original), sizeof(original)).flush();
    return code;
  };
  EXPECT_EQ(with_header([](StoreHeader& header) { header.version = kStoreVersion + 1; }), ENOTSUP);
  EXPECT_EQ(with_header([](StoreHeader& header) { header.incompat_features = 16; }), ENOTSUP);
  EXPECT_EQ(with_header([](StoreHeader& header) { header.ro_compat_features = 1; }), ENOTSUP);
  EXPECT_EQ(with_header([](StoreHeader& header) { header.compat_features = 1; }), 0);
  EXPECT_EQ(with_header([](StoreHeader& header) { header.slots = 0; }), EUCLEAN);
  EXPECT_EQ(with_header([](StoreHeader& header) { header.slots = UINT64_MAX; }), EUCLEAN);
  EXPECT_EQ(with_header([](StoreHeader& header) { header.block_bytes = 4096; }), EUCLEAN);
}

TEST_F(StoreFileTest, OfTwoEntriesForABlockTheYoungerHolds) {
  make_store();
  {
    const auto store = StoreFile::open(path_, 0, &why_);
    ASSERT_TRUE((*store)->write_entry({0, block_after(BlockAddress{0}, 1), 6}).ok());  // on slot 1 before
  }
  for (int round = 0; round < 2; ++round) {
    const auto store = StoreFile::open(path_, 0, &why_);
    ASSERT_TRUE(store.ok()) << why_;
    const auto entries = (*store)->take_contents().entries;
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[2].slot, 6u);
    EXPECT_EQ(entries[2].address, block_after(BlockAddress{0}, 1));
  }
}

TEST_F(StoreFileTest, ClearsSlotsThatNoEntryNames) {
  make_store();
  const std::vector<std::byte> old(kBlockBytes, std::byte{0xAA});
  {
    const auto store = StoreFile::open(path_, 0, &why_);
    for (const uint32_t slot : {1, 2, 3, 7}) ASSERT_TRUE((*store)->write(slot, 0, old).ok());
    ASSERT_TRUE((*store)->clear_entry(2).ok());
  }
  const auto store = StoreFile::open(path_, 0, &why_);
  ASSERT_TRUE(store.ok()) << why_;
  std::vector<std::byte> found(kBlockBytes);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    ASSERT_TRUE((*store)->read(slot, 0, found).ok());
    EXPECT_EQ(found, slot == 1 ? old : std::vector<std::byte>(kBlockBytes)) << slot;
  }
}

TEST_F(StoreFileTest, WritesJustTheDifferences) {
  make_store();
  const auto store = StoreFile::open(path_, 0, &why_);
  std::vector<std::byte> block(kBlockBytes);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{5000}, 256 * kKiB - 1, 256 * kKiB, kBlockBytes - 1}) {
    block[offset] = std::byte{1};
  }
  constexpr uint32_t kUnused = 5;  // has no room reserved
  const auto disk_bytes = [&] {
    struct stat info {};
    EXPECT_TRUE((*store)->sync().ok() && stat(path_.c_str(), &info) == 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  };
  const uint64_t before = disk_bytes();
  ASSERT_TRUE((*store)->write_differences(kUnused, block).ok());
  std::vector<std::byte> found(kBlockBytes);
  ASSERT_TRUE((*store)->read(kUnused, 0, found).ok());
  EXPECT_EQ(found, block);
  EXPECT_LT(disk_bytes() - before, kBlockBytes / 2);
}

TEST_F(StoreFileTest, RoomIsReservedWhereBlocksAre) {
  make_store();
  const auto store = StoreFile::open(path_, 0, &why_);
  const auto disk_blocks = [&] {
    struct stat info {};
    EXPECT_EQ(stat(path_.c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512 / kBlockBytes;
  };
  EXPECT_EQ(disk_blocks(), 3u);  // of an older brick's store, too
  ASSERT_TRUE((*store)->reserve(5, 2).ok());
  EXPECT_EQ(disk_blocks(), 5u);
  ASSERT_TRUE((*store)->punch(5, 2).ok());
  EXPECT_EQ(disk_blocks(), 3u);
}

// The machine stopped before the first sector, or the last, of the header was on the disk.
TEST_F(StoreFileTest, MakesAnewWhatWasTornInTheMaking) {
  make_store();
  for (const uint64_t torn : {uint64_t{0}, kStoreHeaderBytes - 512}) {
    std::filesystem::resize_file(path_, kStoreHeaderBytes);
    std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(torn))
        .write(std::string(512, '\0').data(), 512);
    EXPECT_EQ(open_code(), EUCLEAN) << "without a size";
    EXPECT_EQ(open_code(kBytes), 0) << last_why_;
  }
}

}  // namespace
}  // namespace brickfs
