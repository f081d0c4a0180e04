// SPDX-License-Identifier: Apache-2.0
// Whose memory brickd believes, and what it does with the rest.
#include "server/store/kept_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/block_numbers.h"
#include "tests/support/brick_factory.h"

namespace brickfs::testing {
namespace {

constexpr uint32_t kKeptFrames = 4;

// As systemd does: it has a duplicate, and gives another to each process that asks.
class TestKeeper final : public MemoryKeeper {
 public:
  std::string name() const override { return "a test"; }
  UniqueFd take() override { return UniqueFd(kept_ ? dup(kept_.get()) : -1); }
  Status keep(int fd) override {
    if (refuses) return Error(ENOBUFS, "it is full");
    kept_ = UniqueFd(dup(fd));
    return {};
  }
  int fd() const { return kept_.get(); }
  bool refuses = false;

 private:
  UniqueFd kept_;
};

class KeptMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<KeptMemory> open(uint32_t frames = kKeptFrames) {
    why_.clear();
    auto kept = KeptMemory::open(file_.path(), frames, &why_);
    code_ = kept.code();
    return kept.ok() ? *std::move(kept) : nullptr;
  }
  std::unique_ptr<KeptMemory> open(MemoryKeeper& keeper, uint32_t frames = kKeptFrames) {
    why_.clear();
    auto kept = KeptMemory::open(keeper, frames, &why_);
    code_ = kept.code();
    return kept.ok() ? *std::move(kept) : nullptr;
  }
  // The error; 0: it opens.
  int refusal(uint32_t frames = kKeptFrames) { return open(frames) ? 0 : code_; }
  static void allocate(KeptMemory& kept, std::vector<uint32_t> frames) {
    StoreVolume record{};
    record.name = {'v'};
    ASSERT_TRUE(kept.table().write_volume(0, record).ok());
    kept.table().add(0, blocks(0, frames.size()), frames);
  }
  void change_byte(uint64_t at) {
    std::fstream file(file_.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(~byte));
  }

  TemporaryMemoryFile file_;
  std::string why_;
  int code_ = 0;
};

TEST_F(KeptMemoryTest, BytesAndTableAreThereForTheNextProcess) {
  uint64_t boot = 0;
  {
    const auto kept = open();
    ASSERT_TRUE(kept) << why_;
    EXPECT_TRUE(kept->is_zero());
    boot = kept->table().boot();
    allocate(*kept, {2, 1});
    const MappedMemory frames = kept->take_frames();
    ASSERT_EQ(frames.bytes().size(), kKeptFrames * kBlockBytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frames.bytes().data()) % kBlockBytes, 0u);
    frames.bytes()[2 * kBlockBytes + 5] = std::byte{42};
    kept->table().seal();
  }
  struct stat info {};
  ASSERT_EQ(stat(file_.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<uint64_t>(info.st_blocks) * 512, kept_bytes(kKeptFrames));  // all of it is reserved
  const auto kept = open();
  ASSERT_TRUE(kept) << why_;
  EXPECT_FALSE(kept->is_zero());
  EXPECT_EQ(kept->table().boot(), boot);
  const auto contents = kept->take_contents();
  EXPECT_TRUE(contents.sealed);
  EXPECT_EQ(contents.entries.size(), 2u);
  EXPECT_EQ(kept->take_frames().bytes()[2 * kBlockBytes + 5], std::byte{42});
}

TEST_F(KeptMemoryTest, OneProcessHasItAtATime) {
  auto kept = open();
  ASSERT_TRUE(kept) << why_;
  EXPECT_EQ(refusal(), EBUSY);
  EXPECT_NE(why_.find("in use by another process"), std::string::npos) << why_;
  kept.reset();
  EXPECT_EQ(refusal(), 0) << why_;
}

TEST_F(KeptMemoryTest, AnotherSizeIsRefusedAndNothingIsLost) {
  {
    const auto kept = open();
    ASSERT_TRUE(kept) << why_;
    allocate(*kept, {0, 1, 2});
  }
  EXPECT_EQ(refusal(kKeptFrames + 1), EINVAL);
  EXPECT_NE(why_.find("holds 8M, not the 10M"), std::string::npos) << why_;
  EXPECT_EQ(refusal(kKeptFrames - 1), EINVAL);
  const auto kept = open();
  ASSERT_TRUE(kept) << why_;
  EXPECT_EQ(kept->take_contents().entries.size(), 3u);
}

// Nothing of it is written to.
TEST_F(KeptMemoryTest, WhatIsNotABricksMemoryIsLeftAsItIs) {
  const auto expect = [&](const std::string& bytes) {
    std::filesystem::remove(file_.path());
    std::ofstream(file_.path(), std::ios::binary) << bytes;
    ASSERT_EQ(chmod(file_.path().c_str(), 0600), 0);
    EXPECT_EQ(refusal(), EUCLEAN) << why_;
    EXPECT_NE(why_.find(file_.path()), std::string::npos) << why_;
    std::ifstream file(file_.path(), std::ios::binary);
    EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(file), {}) == bytes);
  };
  expect("");
  expect("somebody's letter");
  expect(std::string(kept_bytes(kKeptFrames), '\0'));
  expect(std::string(kept_bytes(kKeptFrames), 'x'));
  std::filesystem::remove(file_.path());
  ASSERT_TRUE(open());
  for (const uint64_t bytes :
       {kept_bytes(kKeptFrames) - 1, kept_bytes(kKeptFrames) + 4096, kBlockBytes, uint64_t{100}}) {
    ASSERT_EQ(truncate(file_.path().c_str(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(refusal(), EUCLEAN) << why_;
    EXPECT_EQ(std::filesystem::file_size(file_.path()), bytes);
  }
}

TEST_F(KeptMemoryTest, WhatOthersCouldHavePutThereIsRefused) {
  ASSERT_TRUE(open());
  const char* const path = file_.path().c_str();
  for (const mode_t mode : {0606u, 0660u, 0644u, 0610u}) {
    ASSERT_EQ(chmod(path, mode), 0);
    EXPECT_EQ(refusal(), EPERM) << why_;
  }
  ASSERT_EQ(chmod(path, 0600), 0);
  const std::string other = file_.path() + ".other";
  ASSERT_EQ(link(path, other.c_str()), 0);
  EXPECT_EQ(refusal(), EPERM) << why_;
  std::filesystem::remove(other);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path, 65534, 65534), 0);
    EXPECT_EQ(refusal(), EPERM) << why_;
    ASSERT_EQ(chown(path, 0, 0), 0);
  }
  EXPECT_EQ(refusal(), 0) << why_;
  std::filesystem::rename(file_.path(), other);
  ASSERT_EQ(symlink(other.c_str(), path), 0);
  EXPECT_EQ(refusal(), ELOOP) << why_;
  std::filesystem::remove(file_.path());
  ASSERT_EQ(symlink("/dev/shm/nothing there", path), 0);
  EXPECT_EQ(refusal(), ELOOP) << why_;
  std::filesystem::remove(file_.path());
  ASSERT_EQ(mkfifo(path, 0600), 0);
  EXPECT_EQ(refusal(), EINVAL) << why_;
  std::filesystem::remove(file_.path());
  ASSERT_EQ(mkdir(path, 0700), 0);
  EXPECT_NE(refusal(), 0);
  std::filesystem::remove(file_.path());
  std::filesystem::remove(other);
}

TEST_F(KeptMemoryTest, ACopyIsNotWhatWasLeft) {
  {
    const auto kept = open();
    ASSERT_TRUE(kept) << why_;
    allocate(*kept, {0});
  }
  const std::string copy = file_.path() + ".copy";
  std::filesystem::copy_file(file_.path(), copy);
  std::filesystem::rename(copy, file_.path());
  EXPECT_EQ(refusal(), EXDEV);
  EXPECT_NE(why_.find("copy"), std::string::npos) << why_;
}

TEST_F(KeptMemoryTest, OnADiskItIsRefused) {
  const TemporaryDirectory directory;
  std::string why;
  const std::string path = directory.path("memory");
  const auto made = KeptMemory::open(path, kKeptFrames, &why);
  if (made.ok()) GTEST_SKIP() << "/tmp is memory here";
  EXPECT_EQ(made.code(), EINVAL) << why;
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "x";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(KeptMemory::open(path, kKeptFrames, &why).code(), EINVAL) << why;
  EXPECT_NE(why.find("/dev/shm"), std::string::npos) << why;
}

// The brick is another one then, and its clients are told.
TEST_F(KeptMemoryTest, WhatDoesNotProveItselfIsGone) {
  const auto expect_gone = [&](auto&& damage) {
    uint64_t boot = 0;
    {
      const auto kept = open();
      ASSERT_TRUE(kept) << why_;
      boot = kept->table().boot();
      if (kept->take_contents().entries.empty()) allocate(*kept, {3, 1});
    }
    damage();
    const auto kept = open();
    ASSERT_TRUE(kept) << why_;
    EXPECT_NE(kept->table().boot(), boot);
    EXPECT_FALSE(kept->is_zero());
    EXPECT_TRUE(kept->take_contents().entries.empty());
  };
  expect_gone([&] { change_byte(kKeptEntriesAt + 3 * sizeof(KeptEntry)); });
  expect_gone([&] { change_byte(offsetof(KeptHeader, uuid)); });
  expect_gone([&] { change_byte(kKeptVolumesAt + sizeof(KeptVolume)); });
  const auto punch = [&](uint64_t at, uint64_t bytes) {
    const UniqueFd fd(::open(file_.path().c_str(), O_RDWR));
    ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                        static_cast<off_t>(bytes)),
              0);
  };
  expect_gone([&] { punch(round_down(kKeptEntriesAt, 4096), 4096); });
  expect_gone([&] { punch(kept_frames_at(kKeptFrames) + 3 * kBlockBytes, 4096); });  // a page of a block
}

TEST_F(KeptMemoryTest, IsNotMadeWhereThereIsNoRoom) {
  const uint64_t frames = std::filesystem::space("/dev/shm").capacity / kBlockBytes + 1000;
  EXPECT_FALSE(open(static_cast<uint32_t>(frames)));
  EXPECT_FALSE(std::filesystem::exists(file_.path())) << "half of it is left";
}

TEST_F(KeptMemoryTest, AKeeperHasItMeanwhile) {
  TestKeeper keeper;
  uint64_t boot = 0;
  {
    const auto kept = open(keeper);
    ASSERT_TRUE(kept) << why_;
    EXPECT_TRUE(kept->is_zero());
    boot = kept->table().boot();
    allocate(*kept, {2});
    kept->take_frames().bytes()[2 * kBlockBytes] = std::byte{1};
    EXPECT_FALSE(open(keeper)) << "two have it at once";
    EXPECT_EQ(code_, EBUSY);
  }
  EXPECT_FALSE(open(keeper, kKeptFrames + 1));
  EXPECT_EQ(code_, EINVAL);
  EXPECT_NE(ftruncate(keeper.fd(), 0), 0) << "its size can change under us";
  const auto kept = open(keeper);
  ASSERT_TRUE(kept) << why_;
  EXPECT_EQ(kept->table().boot(), boot);
  EXPECT_EQ(kept->take_contents().entries.size(), 1u);
  EXPECT_EQ(kept->take_frames().bytes()[2 * kBlockBytes], std::byte{1});
}

TEST_F(KeptMemoryTest, AKeeperThatTakesNothingOrHasSomethingElse) {
  TestKeeper keeper;
  keeper.refuses = true;
  EXPECT_FALSE(open(keeper));
  EXPECT_EQ(code_, ENOBUFS);
  keeper.refuses = false;
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fchmod(unsealed.get(), 0600), 0);
  ASSERT_EQ(ftruncate(unsealed.get(), kept_bytes(kKeptFrames)), 0);
  ASSERT_TRUE(keeper.keep(unsealed.get()).ok());
  EXPECT_FALSE(open(keeper));
  EXPECT_EQ(code_, EPERM) << why_;
  ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_FALSE(open(keeper));
  EXPECT_EQ(code_, EUCLEAN) << why_;  // zeros
}

}  // namespace
}  // namespace brickfs::testing
