// SPDX-License-Identifier: Apache-2.0
// Damage of one kind at a time: the check finds it, the repair mends it, the check finds nothing any more, and what the
// damage did not touch is as it was.
#include "fs/recovery/repair.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <random>
#include <string>

#include "fs/operations/filesystem.h"
#include "fs/persistence/checkpoint.h"
#include "fs/persistence/checkpoint_format.h"
#include "fs/recovery/check.h"
#include "fs/recovery/make.h"
#include "tests/support/embedded_volume.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/stopping_brick.h"
#include "tests/support/tree_editor.h"

namespace brickfs {
namespace {

constexpr uint64_t kBytes = 3 * kUnitBytes;

void write_text(Filesystem& filesystem, Ino ino, std::string text) {
  const LocalSlice slice{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
  const auto written = filesystem.write(ino, 0, {&slice, 1}, false, nullptr);
  ASSERT_TRUE(written.ok() && *written == text.size());
}

std::string read_text(Filesystem& filesystem, Ino ino, uint64_t bytes) {
  std::string text(bytes, '?');
  const LocalSlice slice{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(bytes), 0};
  const auto read = filesystem.read(ino, 0, {&slice, 1});
  return read.ok() ? text.substr(0, *read) : "(cannot be read)";
}

int count_entries(Filesystem& filesystem, Ino directory) {
  int entries = 0;
  EXPECT_TRUE(
      filesystem.read_directory(directory, 0, false, [&](const DirectoryEntry&) { return ++entries > 0; }).ok());
  return entries;
}

std::string pattern(char of) { return std::string(kBytes, of); }

// A small sound volume: /a, /b with data, /d with c in it, /d/e empty, /l -> a.
class RepairTest : public ::testing::Test {
 protected:
  RepairTest() {
    volume_ = std::make_unique<EmbeddedVolume>(128 * kMiB);
    make_files();
  }

  void make_files() {
    auto filesystem = mount();
    a_ = make_file(*filesystem, kRootIno, "a");
    b_ = make_file(*filesystem, kRootIno, "b");
    d_ = filesystem->make_directory(kRootIno, "d", 0755, root_caller())->ino;
    c_ = make_file(*filesystem, d_, "c");
    e_ = filesystem->make_directory(d_, "e", 0755, root_caller())->ino;
    l_ = filesystem->make_symlink(kRootIno, "l", "a", root_caller())->ino;
    EXPECT_TRUE(filesystem->unmount().ok());
  }

  std::unique_ptr<Filesystem> mount() {
    std::string why;
    auto filesystem = Filesystem::mount(volume_->open(), {}, &why);
    EXPECT_TRUE(filesystem.ok()) << why;
    return filesystem.ok() ? std::move(*filesystem) : nullptr;
  }
  Ino make_file(Filesystem& filesystem, Ino directory, const char* name) {
    const Ino ino = filesystem.create(directory, name, 0644, root_caller())->ino;
    write_text(filesystem, ino, pattern(*name));
    return ino;
  }
  Ino make_large_file(const char* name) {
    const auto filesystem = mount();
    const Ino ino = filesystem->create(kRootIno, name, 0644, root_caller())->ino;
    write_text(*filesystem, ino, std::string(2 * kBlockBytes, 'x'));
    EXPECT_TRUE(filesystem->unmount().ok());
    return ino;
  }
  void edit(const std::function<void(EditedTree&)>& change) {
    const auto client = volume_->open();
    edit_tree(*client, change);
    ASSERT_TRUE(client->close().ok());
  }
  CheckReport check() {
    const auto client = volume_->open(OpenMode::kReadOnly);
    std::string why;
    auto report = check_filesystem(*client, {}, &why);
    EXPECT_TRUE(report.ok()) << why;
    return report.ok() ? std::move(*report) : CheckReport{};
  }
  Result<Findings> repair() {
    const auto client = volume_->open();
    auto repairs = repair_filesystem(*client, {}, &why_);
    EXPECT_TRUE(client->close().ok());
    return repairs;
  }
  // Found, mended, and nothing left; then mounted for writing.
  std::unique_ptr<Filesystem> mended() {
    EXPECT_TRUE(check().findings.damaged());
    const auto repairs = repair();
    EXPECT_TRUE(repairs.ok()) << why_;
    if (repairs.ok()) {
      EXPECT_GT(repairs->count(Finding::Severity::kRepair), 0u);
    }
    const CheckReport after = check();
    EXPECT_EQ(after.findings.first_damage(), "");
    auto filesystem = mount();
    EXPECT_TRUE(filesystem && !filesystem->read_only());
    return filesystem;
  }
  static std::string text(Filesystem& filesystem, std::string_view path) {
    const auto found = stat_path(filesystem, path);
    return found.ok() ? read_text(filesystem, found->ino, found->size_bytes) : "(none)";
  }
  // Besides what the test is about.
  static void expect_whole(Filesystem& filesystem, std::initializer_list<const char*> paths) {
    for (const std::string path : paths) EXPECT_EQ(text(filesystem, path), pattern(path.back())) << path;
  }

  std::unique_ptr<EmbeddedVolume> volume_;
  std::string why_;
  Ino a_{}, b_{}, c_{}, d_{}, e_{}, l_{};
};

TEST_F(RepairTest, WrongLinkCounts) {
  edit([&](EditedTree& tree) {
    tree.at(raw(a_)).nlink = 7;
    tree.at(raw(d_)).nlink = 9;
  });
  const auto filesystem = mended();
  EXPECT_EQ(stat_path(*filesystem, "/a")->nlink, 1u);
  EXPECT_EQ(stat_path(*filesystem, "/d")->nlink, 3u);
  expect_whole(*filesystem, {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, FileWithoutANameGoesToLostAndFound) {
  edit([&](EditedTree& tree) { tree.at(1).directory->erase("a"); });
  const auto filesystem = mended();
  EXPECT_EQ(text(*filesystem, "/lost+found/#" + std::to_string(raw(a_))), pattern('a'));
  expect_whole(*filesystem, {"/b", "/d/c"});
}

TEST_F(RepairTest, DirectoryWithoutANameGoesToLostAndFoundWithAllInIt) {
  edit([&](EditedTree& tree) { tree.at(1).directory->erase("d"); });
  const auto filesystem = mended();
  EXPECT_EQ(text(*filesystem, "/lost+found/#" + std::to_string(raw(d_)) + "/c"), pattern('c'));
  expect_whole(*filesystem, {"/a", "/b"});
}

TEST_F(RepairTest, NameOfNothingGoes) {
  edit([](EditedTree& tree) { tree.at(1).directory->insert("ghost", Ino{999}, DT_REG); });
  const auto filesystem = mended();
  EXPECT_EQ(stat_path(*filesystem, "/ghost").code(), ENOENT);
  expect_whole(*filesystem, {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, EntryOfAnotherType) {
  edit([&](EditedTree& tree) { tree.at(1).directory->replace("a", a_, DT_DIR); });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, CookiesThatCollide) {
  edit([&](EditedTree& tree) {
    tree.at(1).directory->put("a", a_, DT_REG, 5);
    tree.at(1).directory->put("b", b_, DT_REG, 5);
  });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, DirectoryUnderTwoNamesKeepsOne) {
  edit([&](EditedTree& tree) { tree.at(1).directory->insert("again", e_, DT_DIR); });
  const auto filesystem = mended();
  EXPECT_EQ(stat_path(*filesystem, "/again").code(), ENOENT);
  EXPECT_TRUE(stat_path(*filesystem, "/d/e").ok());
}

TEST_F(RepairTest, LoopOfDirectoriesIsOpened) {
  edit([&](EditedTree& tree) {
    tree.at(1).directory->erase("d");
    tree.at(raw(e_)).directory->insert("loop", d_, DT_DIR);
    tree.at(raw(d_)).parent = e_;
  });
  const auto filesystem = mended();
  const std::string d = "/lost+found/#" + std::to_string(raw(d_));
  const std::string e = "/lost+found/#" + std::to_string(raw(e_));
  EXPECT_TRUE(text(*filesystem, d + "/c") == pattern('c') || text(*filesystem, e + "/loop/c") == pattern('c'));
}

TEST_F(RepairTest, NameOfTheRootGoes) {
  edit([&](EditedTree& tree) { tree.at(raw(d_)).directory->insert("up", kRootIno, DT_DIR); });
  EXPECT_EQ(stat_path(*mended(), "/d/up").code(), ENOENT);
}

TEST_F(RepairTest, FileWithoutItsRowIsMadeOfItsData) {
  edit([&](EditedTree& tree) { tree.without_row.insert(raw(a_)); });
  const auto filesystem = mended();
  EXPECT_EQ(stat_path(*filesystem, "/a")->mode, uint32_t{S_IFREG | 0600});
  expect_whole(*filesystem, {"/a", "/b", "/d/c"});
}

// Its last unit ends one byte behind the largest file.
TEST_F(RepairTest, FileWithoutItsRowThatHasTheLastUnitIsMadeOfItsData) {
  edit([&](EditedTree& tree) {
    tree.without_row.insert(raw(a_));
    ExtentMap& extents = *tree.at(raw(a_)).extents;
    const Extent data = *extents.last();
    extents.unmap(0, UINT64_MAX, nullptr);
    extents.map({.file_unit = limits::kFileBytes / kUnitBytes, .count = 1, .volume_unit = data.volume_unit}, nullptr);
  });
  const auto filesystem = mended();
  ASSERT_NE(filesystem, nullptr);
  EXPECT_EQ(stat_path(*filesystem, "/a")->size_bytes, limits::kFileBytes);
  expect_whole(*filesystem, {"/b", "/d/c"});
}

TEST_F(RepairTest, DirectoryWithoutItsRowIsMadeOfItsEntries) {
  edit([&](EditedTree& tree) { tree.without_row.insert(raw(d_)); });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, RootWithoutItsRow) {
  edit([](EditedTree& tree) { tree.without_row.insert(1); });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, RootThatIsNotThere) {
  edit([](EditedTree& tree) { tree.inodes.erase(kRootIno); });
  const auto filesystem = mended();
  EXPECT_EQ(text(*filesystem, "/lost+found/#" + std::to_string(raw(a_))), pattern('a'));
  EXPECT_EQ(text(*filesystem, "/lost+found/#" + std::to_string(raw(d_)) + "/c"), pattern('c'));
}

TEST_F(RepairTest, UnlinkedFileWithANameIsKept) {
  edit([&](EditedTree& tree) { tree.at(raw(a_)).orphan = true; });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, RemovedDirectoryThatIsNotEmpty) {
  edit([&](EditedTree& tree) {
    tree.at(1).directory->erase("d");
    tree.at(raw(d_)).orphan = true;
    tree.at(raw(d_)).nlink = 0;
  });
  EXPECT_EQ(text(*mended(), "/lost+found/#" + std::to_string(raw(c_))), pattern('c'));
}

TEST_F(RepairTest, LinkTargetOfAnotherLength) {
  edit([&](EditedTree& tree) { tree.at(raw(l_)).size_bytes = 5; });
  const auto filesystem = mended();
  expect_whole(*filesystem, {"/a", "/b", "/d/c"});
  EXPECT_EQ(stat_path(*filesystem, "/l")->size_bytes, 1u);
}

TEST_F(RepairTest, AttributesBeyondTheLimit) {
  edit([&](EditedTree& tree) {
    tree.at(raw(a_)).xattrs = std::make_unique<Xattrs>();
    for (int i = 0; i < 40; ++i) (*tree.at(raw(a_)).xattrs)["user." + std::to_string(i)].resize(60'000);
  });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, UnitsOfTwoFilesAreCopied) {
  edit([&](EditedTree& tree) {
    const Extent of_a = *tree.at(raw(a_)).extents->at_or_after(0);
    tree.at(raw(b_)).extents->map({1, 2, of_a.volume_unit + 1, false}, nullptr);
  });
  const auto filesystem = mended();
  const std::string expected = pattern('b').substr(0, kUnitBytes) + pattern('a').substr(kUnitBytes);
  EXPECT_EQ(text(*filesystem, "/a"), pattern('a'));
  EXPECT_EQ(text(*filesystem, "/b"), expected);
  write_text(*filesystem, a_, pattern('x'));
  EXPECT_EQ(text(*filesystem, "/b"), expected);
  expect_whole(*filesystem, {"/d/c"});
}

TEST_F(RepairTest, ExtentOutsideTheAllocatedBlocks) {
  edit([&](EditedTree& tree) { tree.at(raw(a_)).extents->map({1, 1, uint64_t{40} * kUnitsPerBlock, false}, nullptr); });
  const auto filesystem = mended();
  std::string expected = pattern('a');
  expected.replace(kUnitBytes, kUnitBytes, kUnitBytes, '\0');
  EXPECT_EQ(text(*filesystem, "/a"), expected);
  expect_whole(*filesystem, {"/b", "/d/c"});
}

TEST_F(RepairTest, ExtentInTheSuperblock) {
  edit([&](EditedTree& tree) { tree.at(raw(a_)).extents->map({0, 1, 0, false}, nullptr); });
  expect_whole(*mended(), {"/b", "/d/c"});
}

TEST_F(RepairTest, ExtentsOfADirectory) {
  edit([&](EditedTree& tree) {
    tree.at(raw(d_)).extents = std::make_unique<ExtentMap>();
    tree.at(raw(d_)).extents->map({0, 1, tree.at(raw(a_)).extents->at_or_after(0)->volume_unit, false}, nullptr);
  });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

TEST_F(RepairTest, EntriesOfAFile) {
  edit([&](EditedTree& tree) {
    tree.at(raw(a_)).directory = std::make_unique<Directory>();
    tree.at(raw(a_)).directory->insert("odd", b_, DT_REG);
  });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

// What of the volume is where, read anew.
Superblock superblock_of(VolumeSet& volume) {
  SuperblockSlots slots(volume);
  const auto read = slots.read();
  EXPECT_TRUE(read.ok() && read->kind == SuperblockRead::Kind::kValid);
  return read->superblock;
}

void flip(VolumeSet& volume, uint64_t address) {
  std::byte byte{};
  const Piece piece{address, {LocalSlice{&byte, 1, 0}}};
  ASSERT_TRUE(volume.read({&piece, 1}).ok());
  byte ^= std::byte{0x10};
  ASSERT_TRUE(volume.write({&piece, 1}, Stage::kData).ok());
  ASSERT_TRUE(volume.commit().ok());
}

// With enough names for several chunks.
TEST_F(RepairTest, ChunkOfTheCheckpointThatDoesNotVerify) {
  {
    const auto filesystem = mount();
    for (int i = 0; i < 30'000; ++i)
      ASSERT_TRUE(filesystem->create(d_, "file" + std::to_string(i), 0644, root_caller()).ok());
    ASSERT_TRUE(filesystem->unmount().ok());
  }
  {
    const auto client = volume_->open();
    const Superblock superblock = superblock_of(*client);
    ASSERT_GT(superblock.checkpoint.chunks, 2u);
    flip(*client, raw(block_at(superblock.checkpoint, 0)) + kChunkBytes + 5000);
    ASSERT_TRUE(client->close().ok());
  }
  const auto filesystem = mended();
  expect_whole(*filesystem, {"/a", "/b", "/d/c"});
  EXPECT_GT(count_entries(*filesystem, d_), 1000);
}

TEST_F(RepairTest, JournalThatIsDamagedInTheMiddle) {
  {
    const auto filesystem = mount();
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(filesystem->create(kRootIno, "new" + std::to_string(i), 0644, root_caller()).ok());
      ASSERT_TRUE(i % 20 != 0 || filesystem->sync_all().ok());
    }
    ASSERT_TRUE(filesystem->sync_all().ok());
  }
  {
    const auto client = volume_->open();
    flip(*client, raw(superblock_of(*client).journal_block) + 9000);
    ASSERT_TRUE(client->close().ok());
  }
  const auto filesystem = mended();
  expect_whole(*filesystem, {"/a", "/b", "/d/c"});
  EXPECT_TRUE(stat_path(*filesystem, "/new0").ok());
  EXPECT_EQ(stat_path(*filesystem, "/new199").code(), ENOENT);
}

TEST_F(RepairTest, BothSuperblocksAreRefused) {
  {
    const auto client = volume_->open();
    for (const uint64_t copy : {uint64_t{0}, uint64_t{1 * kMiB}}) flip(*client, copy + 100);
    ASSERT_TRUE(client->close().ok());
  }
  EXPECT_TRUE(check().findings.damaged());
  EXPECT_EQ(repair().code(), EUCLEAN);
  EXPECT_NE(why_.find("superblock"), std::string::npos) << why_;
}

TEST_F(RepairTest, TreeOfWhichNothingIsLeftIsRefused) {
  {
    const auto client = volume_->open();
    const Superblock superblock = superblock_of(*client);
    for (uint64_t chunk = 0; chunk < superblock.checkpoint.chunks; ++chunk)
      flip(*client, raw(block_at(superblock.checkpoint, 0)) + chunk * kChunkBytes + 100);
    ASSERT_TRUE(client->close().ok());
  }
  EXPECT_EQ(repair().code(), EUCLEAN);
  EXPECT_NE(why_.find("nothing of the tree"), std::string::npos) << why_;
}

TEST_F(RepairTest, OneCopyOfTheSuperblockIsEnough) {
  {
    const auto client = volume_->open();
    flip(*client, 100);
    ASSERT_TRUE(client->close().ok());
  }
  edit([&](EditedTree& tree) { tree.at(raw(a_)).nlink = 2; });
  expect_whole(*mended(), {"/a", "/b", "/d/c"});
}

// Wherever a repair stops, what is left is as damaged as it was, or repaired.
TEST_F(RepairTest, MayStopAtAnyChange) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  for (const bool brick_crashes : {false, true}) {
    bool stopped = true;
    for (uint64_t changes = 0; stopped; ++changes) {
      SCOPED_TRACE(::testing::Message() << changes << " changes, the brick " << (brick_crashes ? "crashes" : "lives"));
      volume_ = std::make_unique<EmbeddedVolume>(64 * kMiB, 64 * kMiB);
      make_files();
      const Ino block = make_large_file("large");
      edit([&](EditedTree& tree) {
        // A whole block that the repair drops.
        tree.at(raw(e_)).extents = std::move(tree.at(raw(block)).extents);
        tree.at(1).directory->erase("large");
        tree.inodes.erase(block);
        tree.at(1).directory->erase("d");
        tree.at(raw(b_)).extents->map({1, 2, tree.at(raw(a_)).extents->at_or_after(0)->volume_unit + 1, false},
                                      nullptr);
      });
      {
        const auto client = volume_->try_open(std::make_unique<StoppingBrick>(volume_->brick(), changes, seed));
        ASSERT_TRUE(client.ok());
        stopped = !repair_filesystem(**client, {}, &why_).ok();
        static_cast<void>((*client)->close());
      }
      if (brick_crashes) volume_->crash_brick();
      const CheckReport left = check();
      for (const Finding& finding : left.findings.kept())
        ASSERT_EQ(finding.text.find("not on the brick"), std::string::npos);
      const bool damaged = left.findings.damaged();
      ASSERT_TRUE(!damaged || (stopped && repair().ok())) << why_;
      ASSERT_EQ(check().findings.first_damage(), "");
      const auto filesystem = mount();
      ASSERT_EQ(text(*filesystem, "/lost+found/#" + std::to_string(raw(d_)) + "/c"), pattern('c'));
      ASSERT_EQ(text(*filesystem, "/b"), pattern('b').substr(0, kUnitBytes) + pattern('a').substr(kUnitBytes));
      expect_whole(*filesystem, {"/a"});
    }
  }
}

TEST_F(RepairTest, SoundVolumeStaysAsItIs) {
  const auto repairs = repair();
  ASSERT_TRUE(repairs.ok()) << why_;
  EXPECT_EQ(repairs->all(), 0u);
  EXPECT_FALSE(check().findings.damaged());
  expect_whole(*mount(), {"/a", "/b", "/d/c"});
}

}  // namespace
}  // namespace brickfs
