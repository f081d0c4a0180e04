// SPDX-License-Identifier: Apache-2.0
// File data against a plain copy in memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/mounted_volume.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::byte kForeign{0xEE};  // in units that other files have left behind; in none of ours

Ino ino_of(Filesystem& filesystem, std::string_view name) {
  const auto found = filesystem.lookup(kRootIno, name);
  EXPECT_TRUE(found.ok());
  return found.ok() ? found->ino : kNoIno;
}

Result<uint64_t> write(Filesystem& filesystem, Ino ino, uint64_t offset, const Bytes& bytes, bool append = false) {
  // In two slices, as a request in pieces.
  auto* data = const_cast<std::byte*>(bytes.data());
  const uint32_t half = static_cast<uint32_t>(bytes.size() / 2);
  const LocalSlice slices[] = {{data, half, 0}, {data + half, static_cast<uint32_t>(bytes.size() - half), 0}};
  return filesystem.write(ino, offset, slices, append, nullptr);
}

Status status_of(const Result<uint64_t>& result) { return result.ok() ? Status() : Status(result.error()); }

Status set_size(Filesystem& filesystem, Ino ino, uint64_t size) {
  AttributeChange change;
  change.size_bytes = size;
  const auto changed = filesystem.set_attributes(ino, change, root_caller());
  return changed.ok() ? Status() : Status(changed.error());
}

// Leaves foreign bytes in all units that are given out from now on.
void soil_free_space(Filesystem& filesystem, uint64_t bytes) {
  const Ino ino = make_file(filesystem, "soil");
  const Bytes dirt(kMiB, kForeign);
  for (uint64_t offset = 0; offset < bytes; offset += dirt.size())
    ASSERT_TRUE(write(filesystem, ino, offset, dirt).ok());
  const Ino keeper = make_file(filesystem, "keeper");
  // One unit in each block stays in use, so that the blocks stay and keep their bytes.
  for (uint64_t offset = 0; offset < bytes; offset += kBlockBytes) {
    ASSERT_TRUE(
        filesystem.allocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, kBlockBytes - kUnitBytes, nullptr)
            .ok());
  }
  ASSERT_TRUE(write(filesystem, keeper, 0, Bytes(1)).ok());
  ASSERT_TRUE(filesystem.sync_all().ok());
}

// A file and what it should hold.
struct Image {
  Ino ino{};
  Bytes bytes;

  void put(uint64_t offset, const Bytes& data) {
    bytes.resize(std::max<size_t>(bytes.size(), offset + data.size()));
    std::copy(data.begin(), data.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
  }
  void zero(uint64_t offset, uint64_t length) {
    for (uint64_t at = offset; at < std::min<uint64_t>(offset + length, bytes.size()); ++at) bytes[at] = std::byte{0};
  }
};

class RandomFiles {
 public:
  RandomFiles(MountedVolume& volume, unsigned seed) : volume_(volume), random_(seed), images_(3) {
    for (size_t i = 0; i < images_.size(); ++i) images_[i].ino = make_file(*volume_, name(i));
    EXPECT_TRUE(volume_->sync_all().ok());
  }

  void step() {
    Image& image = images_[random_() % images_.size()];
    const uint64_t offset = place();
    const uint64_t length = 1 + (random_() % 4 == 0 ? random_() % 300'000 : random_() % 9'000);
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2:
        return write_at(image, offset, length);
      case 3:
        return append(image, length);
      case 4:
        return resize(image, random_() % 2 == 0 ? offset : place());
      case 5:
        return punch(image, offset, length);
      case 6:
        return zero_range(image, offset, length, random_() % 2 == 0);
      case 7:
        return preallocate(image, offset, length, random_() % 2 == 0);
      case 8:
        return copy(image, images_[random_() % images_.size()], offset, length);
      default:
        return check_part(image, offset, length);
    }
  }

  void check() {
    for (const Image& image : images_) {
      ASSERT_EQ(volume_->get_attributes(image.ino)->size_bytes, image.bytes.size());
      const Bytes found = read(*volume_, image.ino, 0, image.bytes.size() + 1);
      ASSERT_EQ(found.size(), image.bytes.size());
      const auto differs = std::mismatch(found.begin(), found.end(), image.bytes.begin()).first;
      ASSERT_EQ(differs, found.end()) << "at " << differs - found.begin() << " of " << found.size();
    }
  }

  void find_again() {
    for (size_t i = 0; i < images_.size(); ++i) images_[i].ino = ino_of(*volume_, name(i));
  }

  // After a crash without sync: any mixture of what the files once held, but nobody else's bytes. Begins anew from
  // there.
  void take_over() {
    find_again();
    for (Image& image : images_) {
      image.bytes = read(*volume_, image.ino, 0, volume_->get_attributes(image.ino)->size_bytes);
      ASSERT_EQ(std::ranges::count(image.bytes, kForeign), 0);
    }
  }

 private:
  static std::string name(size_t number) { return "file" + std::to_string(number); }
  uint64_t place() {
    const uint64_t offset = random_() % 600'000;
    return random_() % 3 == 0 ? round_down(offset, kUnitBytes) : offset;
  }
  Bytes data(uint64_t length) {
    Bytes bytes(length);
    for (std::byte& byte : bytes) byte = std::byte(1 + random_() % 200);
    return bytes;
  }
  void write_at(Image& image, uint64_t offset, uint64_t length) {
    const Bytes bytes = data(length);
    ASSERT_EQ(*write(*volume_, image.ino, offset, bytes), length);
    image.put(offset, bytes);
  }
  void append(Image& image, uint64_t length) {
    const Bytes bytes = data(length);
    ASSERT_EQ(*write(*volume_, image.ino, 0, bytes, true), length);
    image.put(image.bytes.size(), bytes);
  }
  void resize(Image& image, uint64_t size) {
    ASSERT_TRUE(set_size(*volume_, image.ino, size).ok());
    image.bytes.resize(size);
  }
  void punch(Image& image, uint64_t offset, uint64_t length) {
    ASSERT_TRUE(volume_->allocate(image.ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length, nullptr).ok());
    image.zero(offset, length);
  }
  void zero_range(Image& image, uint64_t offset, uint64_t length, bool keep) {
    ASSERT_TRUE(
        volume_->allocate(image.ino, FALLOC_FL_ZERO_RANGE | (keep ? FALLOC_FL_KEEP_SIZE : 0), offset, length, nullptr)
            .ok());
    if (!keep) image.bytes.resize(std::max<size_t>(image.bytes.size(), offset + length));
    image.zero(offset, length);
  }
  void preallocate(Image& image, uint64_t offset, uint64_t length, bool keep) {
    ASSERT_TRUE(volume_->allocate(image.ino, keep ? FALLOC_FL_KEEP_SIZE : 0, offset, length, nullptr).ok());
    if (!keep) image.bytes.resize(std::max<size_t>(image.bytes.size(), offset + length));
  }
  void copy(Image& from, Image& to, uint64_t offset, uint64_t length) {
    const uint64_t to_offset = place();
    const uint64_t there = offset < from.bytes.size() ? std::min<uint64_t>(length, from.bytes.size() - offset) : 0;
    const bool overlap = &from == &to && there > 0 && offset < to_offset + there && to_offset < offset + there;
    const auto copied = volume_->copy_range(from.ino, offset, to.ino, to_offset, length, nullptr);
    ASSERT_EQ(copied.code(), overlap ? EINVAL : 0);
    if (overlap) return;
    ASSERT_EQ(*copied, there);
    const auto start = from.bytes.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(offset, from.bytes.size()));
    const Bytes bytes(start, start + static_cast<ptrdiff_t>(there));
    if (there > 0) to.put(to_offset, bytes);
  }
  void check_part(Image& image, uint64_t offset, uint64_t length) {
    const size_t low = std::min<size_t>(offset, image.bytes.size());
    const size_t high = std::min<size_t>(offset + length, image.bytes.size());
    const Bytes expected(image.bytes.begin() + static_cast<ptrdiff_t>(low),
                         image.bytes.begin() + static_cast<ptrdiff_t>(high));
    ASSERT_EQ(read(*volume_, image.ino, offset, length), expected);
  }

  MountedVolume& volume_;
  std::mt19937 random_;
  std::vector<Image> images_;
};

TEST(FileData, RandomWorkEqualsAnImageInMemory) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  MountedVolume volume;
  soil_free_space(*volume, 32 * kMiB);
  RandomFiles files(volume, seed);
  for (int i = 0; i < 600 && !::testing::Test::HasFatalFailure(); ++i) {
    files.step();
    if (i % 50 == 49) files.check();
  }
}

TEST(FileData, WhatWasSyncedIsThereAfterACrash) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  MountedVolume volume;
  soil_free_space(*volume, 32 * kMiB);
  RandomFiles files(volume, seed);
  for (int round = 0; round < 12 && !::testing::Test::HasFatalFailure(); ++round) {
    for (int i = 0; i < 25; ++i) files.step();
    ASSERT_TRUE(volume->sync_all().ok());
    volume.crash_and_mount();
    files.find_again();
    files.check();
  }
}

TEST(FileData, ACrashNeverShowsForeignBytes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  MountedVolume volume;
  soil_free_space(*volume, 32 * kMiB);
  RandomFiles files(volume, seed);
  for (int round = 0; round < 12 && !::testing::Test::HasFatalFailure(); ++round) {
    for (int i = 0; i < 20; ++i) files.step();
    volume.crash_and_mount();
    files.take_over();
  }
}

// What is cut off and covered again before that is durable must not show in the longer file that a crash brings back.
TEST(FileData, ATruncationThatIsLostLosesNothing) {
  MountedVolume volume;
  const Bytes before(kUnitBytes * 2, std::byte{7});
  for (int round = 0; round < 20; ++round) {
    const Ino ino = make_file(*volume, "cut" + std::to_string(round));
    ASSERT_TRUE(write(*volume, ino, 0, before).ok());
    ASSERT_TRUE(volume->sync_all().ok());
    ASSERT_TRUE(set_size(*volume, ino, 100).ok());
    const Status grown =
        round % 2 == 0 ? set_size(*volume, ino, 200) : status_of(write(*volume, ino, 0, Bytes(50, std::byte{9}), true));
    ASSERT_TRUE(grown.ok());
    volume.crash_and_mount();
    const Bytes after = read(*volume, ino_of(*volume, "cut" + std::to_string(round)), 0, 10'000);
    EXPECT_TRUE(after.size() != before.size() || after == before);
  }
}

TEST(FileData, AnOverwriteChangesNoSizeAndNoSetIdBits) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "file");
  AttributeChange change;
  change.size_bytes = 10'000;  // a hole
  ASSERT_TRUE(volume->set_attributes(ino, change, root_caller()).ok());
  Bytes bytes(5'000, std::byte{7});
  const LocalSlice slice{bytes.data(), static_cast<uint32_t>(bytes.size()), 0};
  EXPECT_EQ(*volume->overwrite(ino, 5'000, {&slice, 1}), 5'000u);
  EXPECT_EQ(volume->overwrite(ino, 5'001, {&slice, 1}).code(), ERANGE);
  EXPECT_EQ(volume->overwrite(ino, 10'000, {&slice, 1}).code(), ERANGE);
  EXPECT_EQ(volume->get_attributes(ino)->size_bytes, 10'000u);
  Bytes expected(10'000);
  std::fill(expected.begin() + 5'000, expected.end(), std::byte{7});
  EXPECT_EQ(read(*volume, ino, 0, 20'000), expected);
  AttributeChange set_id;
  set_id.mode = 04755;
  ASSERT_TRUE(volume->set_attributes(ino, set_id, root_caller()).ok());
  EXPECT_EQ(volume->overwrite(ino, 0, {&slice, 1}).code(), ERANGE);
  EXPECT_EQ(read(*volume, ino, 0, 20'000), expected);
}

TEST(FileData, SeekFindsDataAndHoles) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "sparse");
  const uint64_t far = uint64_t{1} << 40;
  ASSERT_TRUE(write(*volume, ino, 3 * kUnitBytes + 5, Bytes(10, std::byte{1})).ok());
  ASSERT_TRUE(write(*volume, ino, far, Bytes(10, std::byte{2})).ok());
  ASSERT_TRUE(volume->allocate(ino, 0, 6 * kUnitBytes, kUnitBytes, nullptr).ok());
  EXPECT_EQ(*volume->seek(ino, 0, SEEK_HOLE), 0u);
  EXPECT_EQ(*volume->seek(ino, 0, SEEK_DATA), 3 * kUnitBytes);
  EXPECT_EQ(*volume->seek(ino, 3 * kUnitBytes + 9, SEEK_DATA), 3 * kUnitBytes + 9);
  EXPECT_EQ(*volume->seek(ino, 3 * kUnitBytes, SEEK_HOLE), 4 * kUnitBytes);
  EXPECT_EQ(*volume->seek(ino, 4 * kUnitBytes, SEEK_DATA), far) << "preallocated units are a hole";
  EXPECT_EQ(*volume->seek(ino, far, SEEK_HOLE), far + 10) << "the end is a hole";
  EXPECT_EQ(volume->seek(ino, far + 10, SEEK_HOLE).code(), ENXIO);
  EXPECT_EQ(volume->seek(ino, 0, SEEK_SET).code(), EINVAL);
  ASSERT_TRUE(set_size(*volume, ino, far + 3 * kUnitBytes).ok());
  EXPECT_EQ(volume->seek(ino, far + kUnitBytes, SEEK_DATA).code(), ENXIO);
  EXPECT_EQ(read(*volume, ino, far + 5, 10),
            Bytes({std::byte{2}, std::byte{2}, std::byte{2}, std::byte{2}, std::byte{2}, {}, {}, {}, {}, {}}));
}

TEST(FileData, FilesReachToTheLimit) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "vast");
  ASSERT_TRUE(write(*volume, ino, limits::kFileBytes - 3, Bytes(3, std::byte{1})).ok());
  EXPECT_EQ(volume->get_attributes(ino)->size_bytes, limits::kFileBytes);
  EXPECT_EQ(read(*volume, ino, limits::kFileBytes - 4, 100),
            Bytes({std::byte{0}, std::byte{1}, std::byte{1}, std::byte{1}}));
  EXPECT_EQ(write(*volume, ino, limits::kFileBytes - 3, Bytes(4)).code(), EFBIG);
  EXPECT_EQ(write(*volume, ino, 0, Bytes(1), true).code(), EFBIG);
  EXPECT_EQ(set_size(*volume, ino, limits::kFileBytes + 1).code(), EFBIG);
  EXPECT_EQ(volume->allocate(ino, 0, limits::kFileBytes, 1, nullptr).code(), EFBIG);
  EXPECT_TRUE(set_size(*volume, ino, 0).ok());
  EXPECT_EQ(volume->get_attributes(ino)->blocks_512, 0u);
}

TEST(FileData, PreallocationIsAllOrNothing) {
  MountedVolume volume;
  const uint64_t free = volume->stat().free_units;
  const Ino ino = make_file(*volume, "reserve");
  EXPECT_EQ(volume->allocate(ino, 0, 0, (free + 1) * kUnitBytes, nullptr).code(), ENOSPC);
  EXPECT_EQ(volume->stat().free_units, free);
  EXPECT_EQ(volume->get_attributes(ino)->size_bytes, 0u);
  ASSERT_TRUE(volume->allocate(ino, FALLOC_FL_KEEP_SIZE, 0, free * kUnitBytes, nullptr).ok());
  EXPECT_EQ(volume->stat().free_units, 0u);
  EXPECT_EQ(volume->get_attributes(ino)->size_bytes, 0u);
  EXPECT_EQ(volume->get_attributes(ino)->blocks_512, free * kUnitBytes / 512);
  EXPECT_TRUE(write(*volume, ino, 12345, Bytes(100'000, std::byte{1})).ok()) << "what is preallocated can be written";
  EXPECT_TRUE(set_size(*volume, ino, 0).ok());
  EXPECT_EQ(volume->stat().free_units, free);
}

TEST(FileData, RefusesWhatItCannotDo) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "file");
  EXPECT_EQ(volume->allocate(ino, FALLOC_FL_PUNCH_HOLE, 0, 1, nullptr).code(), EOPNOTSUPP);
  EXPECT_EQ(volume->allocate(ino, FALLOC_FL_COLLAPSE_RANGE, 0, kUnitBytes, nullptr).code(), EOPNOTSUPP);
  EXPECT_EQ(volume->allocate(ino, 0, 0, 0, nullptr).code(), EINVAL);
  EXPECT_EQ(write(*volume, kRootIno, 0, Bytes(1)).code(), EISDIR);
  EXPECT_EQ(set_size(*volume, kRootIno, 0).code(), EISDIR);
  EXPECT_EQ(write(*volume, Ino{12345}, 0, Bytes(1)).code(), ESTALE);
}

TEST(FileData, AFullVolumeHarmsNothingAndComesBack) {
  MountedVolume::Options options;
  options.memory_bytes = 64 * kMiB;
  MountedVolume volume(options);
  const uint64_t free = volume->stat().free_units;
  EXPECT_GT(free * kUnitBytes, 40 * kMiB);
  const Ino small = make_file(*volume, "small");
  ASSERT_TRUE(write(*volume, small, 0, Bytes(5000, std::byte{3})).ok());
  const Ino big = make_file(*volume, "big");
  uint64_t written = 0;
  for (size_t step = kMiB; step >= kUnitBytes; step /= 2) {
    while (write(*volume, big, written, Bytes(step, std::byte{4})).ok()) written += step;
  }
  EXPECT_EQ(volume->stat().free_units, 0u);
  EXPECT_EQ(written / kUnitBytes + 2, free);
  EXPECT_EQ(write(*volume, big, 0, Bytes(kMiB, std::byte{5})).code(), 0) << "in place";
  EXPECT_EQ(read(*volume, small, 0, 9999), Bytes(5000, std::byte{3}));
  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();
  EXPECT_EQ(volume->stat().free_units, 0u);
  ASSERT_TRUE(volume->unlink(kRootIno, "big").ok());
  ASSERT_TRUE(volume->unlink(kRootIno, "small").ok());
  EXPECT_EQ(volume->stat().free_units, free);
  EXPECT_TRUE(write(*volume, make_file(*volume, "new"), 0, Bytes(8 * kMiB)).ok());
}

TEST(FileData, WritersOfOneFileKeepOutOfEachOthersBytes) {
  MountedVolume volume;
  soil_free_space(*volume, 16 * kMiB);
  const Ino ino = make_file(*volume, "shared");
  constexpr unsigned kWriters = 4;
  constexpr uint64_t kRecord = 3000;  // across units
  constexpr int kRecords = 60;
  std::vector<std::thread> threads;
  for (unsigned writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      std::mt19937 random(writer);
      std::vector<int> order(kRecords);
      for (int i = 0; i < kRecords; ++i) order[static_cast<size_t>(i)] = i;
      std::ranges::shuffle(order, random);
      for (const int record : order) {
        const uint64_t offset = (static_cast<uint64_t>(record) * kWriters + writer) * kRecord;
        EXPECT_TRUE(write(*volume, ino, offset, Bytes(kRecord, std::byte(writer + 1))).ok());
        EXPECT_EQ(read(*volume, ino, offset, kRecord), Bytes(kRecord, std::byte(writer + 1)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Bytes all = read(*volume, ino, 0, kWriters * kRecords * kRecord + 1);
  ASSERT_EQ(all.size(), kWriters * kRecords * kRecord);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], std::byte(i / kRecord % kWriters + 1)) << i;
}

TEST(FileData, AppendsFromManyThreadsAllArrive) {
  MountedVolume volume;
  const Ino ino = make_file(*volume, "log");
  std::vector<std::thread> threads;
  for (unsigned writer = 0; writer < 4; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(write(*volume, ino, 0, Bytes(700, std::byte(writer + 1)), true).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Bytes all = read(*volume, ino, 0, 1'000'000);
  ASSERT_EQ(all.size(), 4u * 100 * 700);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], all[i / 700 * 700]);
}

}  // namespace
}  // namespace brickfs
