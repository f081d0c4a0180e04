// SPDX-License-Identifier: Apache-2.0
// Many threads on few names: what is left must be a tree in which every count is right, here and after a crash.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

constexpr int kThreads = 4;
constexpr int kSteps = 3000;
constexpr int kNames = 6;

// One thread's work. It gives back each reference it takes.
class Worker {
 public:
  Worker(Filesystem& filesystem, uint64_t seed) : filesystem_(filesystem), random_(seed) {}

  void operator()() {
    for (int i = 0; i < kSteps; ++i) step();
  }

 private:
  std::string name() { return "n" + std::to_string(random_() % kNames); }

  // The root, or a directory up to two levels deep; always with a reference.
  Ino directory() {
    Ino at = kRootIno;
    for (uint64_t depth = random_() % 3; depth > 0; --depth) {
      const auto found = filesystem_.lookup(at, name());
      if (!found.ok()) return at;
      if (!S_ISDIR(found->mode)) {
        give_back(found->ino);
        return at;
      }
      give_back(at);
      at = found->ino;
    }
    return at;
  }
  void give_back(Ino ino) {
    if (ino != kRootIno) filesystem_.forget(ino, 1);
  }
  void settle(const Result<Attributes>& made) {
    if (made.ok()) filesystem_.forget(made->ino, 1);
  }

  void step() {
    const Ino where = directory();
    switch (random_() % 9) {
      case 0:
        settle(filesystem_.create(where, name(), 0644, root_caller()));
        break;
      case 1:
        settle(filesystem_.make_directory(where, name(), 0755, root_caller()));
        break;
      case 2:
        (void)filesystem_.unlink(where, name());
        break;
      case 3:
        (void)filesystem_.remove_directory(where, name());
        break;
      case 4:
        link_somewhere(where);
        break;
      case 5:
        list(where);
        break;
      case 6:
        settle(filesystem_.make_symlink(where, name(), "target", root_caller()));
        break;
      default:
        rename_somewhere(where);
        break;
    }
    give_back(where);
  }
  void rename_somewhere(Ino where) {
    const Ino to = directory();
    (void)filesystem_.rename(where, name(), to, name(), static_cast<Rename>(random_() % 3));
    give_back(to);
  }
  void link_somewhere(Ino where) {
    const auto found = filesystem_.lookup(where, name());
    if (!found.ok()) return;
    const Ino to = directory();
    settle(filesystem_.link(found->ino, to, name()));
    give_back(to);
    give_back(found->ino);
  }
  void list(Ino where) {
    std::vector<Ino> taken;
    (void)filesystem_.read_directory(where, 0, true, [&](const DirectoryEntry& entry) {
      if (entry.attributes != nullptr) taken.push_back(entry.ino);
      return true;
    });
    for (const Ino ino : taken) give_back(ino);
  }

  Filesystem& filesystem_;
  std::mt19937_64 random_;
};

struct Seen {
  uint32_t names = 0;
  uint32_t subdirectories = 0;
};

// Walks the tree; each directory must be met once, with the right parent.
void walk(Filesystem& filesystem, Ino directory, Ino parent, std::map<Ino, Seen>& seen) {
  std::vector<std::pair<Ino, uint8_t>> entries;
  ASSERT_TRUE(filesystem
                  .read_directory(directory, 0, false,
                                  [&](const DirectoryEntry& entry) {
                                    if (entry.name == "..") {
                                      EXPECT_EQ(entry.ino, parent);
                                    }
                                    if (entry.name != "." && entry.name != "..")
                                      entries.emplace_back(entry.ino, entry.type);
                                    return true;
                                  })
                  .ok());
  for (const auto& [ino, type] : entries) {
    const auto attributes = filesystem.get_attributes(ino);
    ASSERT_TRUE(attributes.ok());
    EXPECT_EQ(IFTODT(attributes->mode), type);
    const uint32_t names = ++seen[ino].names;
    if (type != DT_DIR) continue;
    ++seen[directory].subdirectories;
    ASSERT_EQ(names, 1u) << "a directory with two names";
    walk(filesystem, ino, directory, seen);
  }
}

void expect_sound(Filesystem& filesystem) {
  std::map<Ino, Seen> seen;
  seen[kRootIno] = {};
  walk(filesystem, kRootIno, kRootIno, seen);
  for (const auto& [ino, counts] : seen) {
    const auto attributes = filesystem.get_attributes(ino);
    ASSERT_TRUE(attributes.ok());
    EXPECT_EQ(attributes->nlink, S_ISDIR(attributes->mode) ? 2 + counts.subdirectories : counts.names) << raw(ino);
  }
  EXPECT_EQ(filesystem.stat().inodes, seen.size()) << "inodes that no name leads to";
}

TEST(NamespaceStress, CountsAreRightAfterRaces) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  MountedVolume volume;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back(Worker(*volume, seed + static_cast<uint64_t>(round * kThreads + i)));
    for (std::thread& thread : threads) thread.join();
    expect_sound(*volume);
    ASSERT_TRUE(volume->sync_all().ok());
    volume.crash_and_mount();
    expect_sound(*volume);
  }
}

}  // namespace
}  // namespace brickfs
