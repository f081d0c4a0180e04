// SPDX-License-Identifier: Apache-2.0
// Crashes: the tree after one is a tree that the operations produced, in order, up to some instant not before the last
// sync.
#include "fs/recovery/recovery.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "fs/operations/filesystem.h"
#include "fs/recovery/check.h"
#include "tests/support/embedded_volume.h"
#include "tests/support/stopping_brick.h"
#include "tests/support/tree_dump.h"

namespace brickfs {
namespace {

uint64_t first_seed() {
  const char* const given = std::getenv("BRICKFS_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

// Random operations on a few names, so that they meet; each one a single transaction.
class RandomWork {
 public:
  RandomWork(Filesystem& filesystem, uint64_t seed) : filesystem_(filesystem), random_(seed) {
    directories_ = {kRootIno, find(kRootIno, "d0"), find(kRootIno, "d1")};
  }

  // Of an operation that is right to fail (the name is there, is not there ...) success too; else the mount is dead.
  bool step() {
    const Ino directory = directories_[random_() % directories_.size()];
    const Ino other = directories_[random_() % directories_.size()];
    const std::string name = "f" + std::to_string(random_() % 8);
    const std::string new_name = "f" + std::to_string(random_() % 8);
    switch (random_() % 9) {
      case 0:
        return make_directory("d" + std::to_string(random_() % 2));
      case 1:
        return lives(filesystem_.unlink(directory, name).code());
      case 2:
        return lives(filesystem_.rename(directory, name, other, new_name, Rename::kReplace).code());
      case 3:
        return lives(filesystem_.rename(directory, name, other, new_name, Rename::kExchange).code());
      case 4:
        return link(directory, name, other, new_name);
      case 5:
        return forget(filesystem_.make_symlink(directory, name, "to " + new_name, {}));
      case 6:
        return truncate(find(directory, name));
      case 7:
        return forget(filesystem_.create(directory, name, S_IFREG | 0644, {}));
      default:
        return append(find(directory, name));
    }
  }

 private:
  static bool lives(int code) { return code != EROFS && code != ESTALE && code != EIO; }

  bool forget(const Result<Attributes>& made) {
    if (made.ok()) filesystem_.forget(made->ino, 1);
    return lives(made.code());
  }
  Ino find(Ino directory, const std::string& name) {
    const auto found = filesystem_.lookup(directory, name);
    if (!found.ok()) return kNoIno;
    filesystem_.forget(found->ino, 1);
    return found->ino;
  }
  bool make_directory(const std::string& name) {
    const auto made = filesystem_.make_directory(kRootIno, name, 0755, {});
    if (made.ok()) directories_[name == "d0" ? 1 : 2] = made->ino;
    return forget(made);
  }
  bool link(Ino directory, const std::string& name, Ino other, const std::string& new_name) {
    const Ino ino = find(directory, name);
    return ino == kNoIno || forget(filesystem_.link(ino, other, new_name));
  }
  bool truncate(Ino ino) {
    AttributeChange change;
    change.size_bytes = random_() % 20'000;
    return ino == kNoIno || lives(filesystem_.set_attributes(ino, change, {}).code());
  }
  bool append(Ino ino) {
    if (ino == kNoIno) return true;
    std::string bytes(1 + random_() % 30'000, static_cast<char>('a' + random_() % 26));
    const LocalSlice slice{reinterpret_cast<std::byte*>(bytes.data()), static_cast<uint32_t>(bytes.size()), 0};
    return lives(filesystem_.write(ino, 0, std::span(&slice, 1), true, nullptr).code());
  }

  Filesystem& filesystem_;
  std::mt19937_64 random_;
  std::vector<Ino> directories_;
};

// What the work has produced, operation by operation.
struct History {
  std::vector<std::string> trees;
  size_t synced = 0;  // index of the last tree known to be durable
};

void work(Filesystem& filesystem, uint64_t seed, int operations, History& history) {
  RandomWork random_work(filesystem, seed);
  std::mt19937_64 random(seed + 1);
  for (int i = 0; i < operations && random_work.step(); ++i) {
    history.trees.push_back(dump_tree(filesystem));
    if (random() % 10 == 0 && filesystem.sync_all().ok()) history.synced = history.trees.size() - 1;
  }
  history.trees.push_back(dump_tree(filesystem));  // the one that failed may have got through in part of the layers
}

void expect_clean(EmbeddedVolume& volume) {
  const auto client = volume.open(OpenMode::kReadOnly);
  std::string why;
  const auto report = check_filesystem(*client, {}, &why);
  ASSERT_TRUE(report.ok()) << why << report.error().what();
  for (const Finding& finding : report->findings.kept()) {
    EXPECT_EQ(finding.severity, Finding::Severity::kNote) << finding.text;
  }
}

// A client that had died by the time of its dump could not read contents any more: they may be any.
bool is_tree(const std::string& tree, const std::string& dumped) {
  std::istringstream lines(tree);
  std::istringstream dumped_lines(dumped);
  std::string line;
  std::string expected;
  while (std::getline(dumped_lines, expected)) {
    if (!std::getline(lines, line)) return false;
    const size_t unread = expected.find(" error ");
    if (line.compare(0, unread, expected, 0, unread) != 0) return false;
  }
  return !std::getline(lines, line);
}

void expect_in_history(const std::string& tree, const History& history) {
  const auto from = history.trees.begin() + static_cast<std::ptrdiff_t>(history.synced);
  EXPECT_TRUE(std::any_of(from, history.trees.end(), [&](const std::string& dumped) { return is_tree(tree, dumped); }))
      << "this tree never was, or was before the last sync:\n"
      << tree << "the synced one:\n"
      << *from;
}

std::unique_ptr<Filesystem> mount(std::unique_ptr<VolumeSet> client) {
  std::string why;
  auto filesystem = Filesystem::mount(std::move(client), {}, &why);
  EXPECT_TRUE(filesystem.ok()) << why;
  if (filesystem.ok()) {
    EXPECT_FALSE((*filesystem)->read_only());
  }
  return filesystem.ok() ? std::move(*filesystem) : nullptr;
}

// The client dies at a random change, under work or while it mounts, again and again on one volume.
void crash_again_and_again(EmbeddedVolume& volume, uint64_t seed, bool brick_too, int rounds) {
  std::mt19937_64 random(seed);
  std::string tree;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    History history;
    history.trees.push_back(tree);
    {
      const uint64_t changes = random() % 200;
      auto client = volume.try_open(std::make_unique<StoppingBrick>(volume.brick(), changes, random()));
      ASSERT_TRUE(client.ok());
      std::string why;
      const auto filesystem = Filesystem::mount(std::move(*client), {}, &why);
      if (filesystem.ok()) {
        ASSERT_EQ(dump_tree(**filesystem), tree);
        work(**filesystem, random(), 60, history);
      }
    }
    if (brick_too) volume.crash_brick();
    expect_clean(volume);
    const auto filesystem = mount(volume.open());
    ASSERT_NE(filesystem, nullptr);
    tree = dump_tree(*filesystem);
    expect_in_history(tree, history);
    if (::testing::Test::HasFailure()) return;
    if (random() % 2 == 0) {
      ASSERT_TRUE(filesystem->unmount().ok());
      expect_clean(volume);
    } else {
      ASSERT_TRUE(filesystem->sync_all().ok());
    }
  }
}

TEST(Recovery, ClientDiesAtRandomChangesOnAVolatileBrick) {
  const uint64_t seed = first_seed();
  for (uint64_t i = 0; i < 4; ++i) {
    EmbeddedVolume volume(128 * kMiB);
    crash_again_and_again(volume, seed + i, false, 10);
  }
}

TEST(Recovery, ClientDiesAtRandomChangesOnADurableBrick) {
  const uint64_t seed = first_seed();
  EmbeddedVolume volume(64 * kMiB, 128 * kMiB);
  crash_again_and_again(volume, seed, false, 10);
}

TEST(Recovery, ClientAndBrickDieAtRandomChanges) {
  const uint64_t seed = first_seed();
  EmbeddedVolume volume(32 * kMiB, 64 * kMiB);
  crash_again_and_again(volume, seed, true, 10);
}

// A crash in the middle of a recovery that has everything to do: replay, orphans, leaked blocks, uncommitted blocks.
TEST(Recovery, CrashDuringRecoveryIsRecovered) {
  for (uint64_t changes = 0;; ++changes) {
    SCOPED_TRACE("died at change " + std::to_string(changes));
    ASSERT_LT(changes, 300u);
    EmbeddedVolume volume(64 * kMiB, 64 * kMiB);
    std::string before;
    {
      const auto filesystem = mount(volume.open());
      const auto made = filesystem->create(kRootIno, "open", S_IFREG | 0644, {});
      std::string bytes(200'000, 'o');
      const LocalSlice slice{reinterpret_cast<std::byte*>(bytes.data()), static_cast<uint32_t>(bytes.size()), 0};
      ASSERT_TRUE(filesystem->write(made->ino, 0, std::span(&slice, 1), false, nullptr).ok());
      ASSERT_TRUE(filesystem->create(kRootIno, "kept", S_IFREG | 0644, {}).ok());
      ASSERT_TRUE(filesystem->unlink(kRootIno, "open").ok());
      ASSERT_TRUE(filesystem->sync_all().ok());
      before = dump_tree(*filesystem);
    }
    bool mounted = false;
    {
      auto client = volume.try_open(std::make_unique<StoppingBrick>(volume.brick(), changes, changes));
      ASSERT_TRUE(client.ok());
      std::string why;
      mounted = Filesystem::mount(std::move(*client), {}, &why).ok();
    }
    expect_clean(volume);
    const auto filesystem = mount(volume.open());
    ASSERT_NE(filesystem, nullptr);
    EXPECT_EQ(dump_tree(*filesystem), before);
    EXPECT_EQ(filesystem->stat().inodes, 2u);
    if (mounted || HasFailure()) break;
  }
}

std::vector<BlockRange> metadata_blocks(VolumeSet& client) {
  const auto listed = client.list();
  SuperblockSlots slots(client);
  const auto superblock = slots.read();
  InodeTable inodes;
  std::string why;
  const auto recovered = recover(client, superblock->superblock, *listed, inodes, {}, &why);
  EXPECT_TRUE(recovered.ok()) << why;
  std::vector<BlockRange> blocks = recovered->journal_and_checkpoint();
  blocks.push_back(kSuperblockBlock);
  return blocks;
}

// Changes up to three bytes, mostly where blocks are filled: at their beginning.
void flip_bytes(VolumeSet& client, std::mt19937_64& random) {
  const std::vector<BlockRange> blocks = metadata_blocks(client);
  for (uint64_t i = random() % 3; i < 3; ++i) {
    const BlockRange range = blocks[random() % blocks.size()];
    const uint64_t offset = random() % (random() % 4 == 0 ? kBlockBytes : 8192);
    std::byte byte{};
    const Piece piece{raw(range.start) + offset, {{&byte, 1, 0}}};
    ASSERT_TRUE(client.read(std::span(&piece, 1)).ok());
    byte ^= std::byte{static_cast<uint8_t>(1u << (random() % 8))};
    ASSERT_TRUE(client.write(std::span(&piece, 1), Stage::kData).ok());
  }
  ASSERT_TRUE(client.commit().ok());
  ASSERT_TRUE(client.close().ok());
}

// Bits of the metadata are flipped: there is never a crash nor a wrong file. Either the damage is told, or the tree is
// one that was: what was hit does not matter, or cannot be told from the journal's unfinished end.
TEST(Recovery, FlippedBitsOfMetadataAreToldOrHarmless) {
  const uint64_t seed = first_seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    EmbeddedVolume volume(64 * kMiB);
    History history;
    const bool unmounted = round % 2 == 0;
    {
      const auto filesystem = mount(volume.open());
      history.trees.push_back(dump_tree(*filesystem));
      work(*filesystem, random(), 40, history);
      history.synced = unmounted ? history.trees.size() - 1 : 0;
      if (unmounted) {
        ASSERT_TRUE(filesystem->unmount().ok());
      }
    }
    flip_bytes(*volume.open(), random);
    std::string why;
    const auto filesystem = Filesystem::mount(volume.open(), {}, &why);
    if (!filesystem.ok()) {
      EXPECT_EQ(filesystem.code(), EUCLEAN) << why;
      EXPECT_FALSE(why.empty());
    } else if (std::string tree = dump_tree(**filesystem); !(*filesystem)->read_only()) {
      expect_in_history(tree, history);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace brickfs
