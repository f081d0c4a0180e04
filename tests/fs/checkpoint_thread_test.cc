// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a tree that is a set of numbers (orphan rows), on a journal, cut off at every step.
#include "fs/persistence/checkpoint_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "fs/persistence/checkpoint.h"
#include "tests/support/journal_bed.h"
#include "transport/base/mutex.h"

namespace brickfs {
namespace {

// The tree. Rows are appended under the lock that guards the set, as operations do under their inodes' locks.
class NumberSet {
 public:
  // In or out, as it is not. `ballast`: bytes for the journal to carry.
  void toggle(Journal& journal, uint64_t number, size_t ballast = 0) {
    Transaction rows;
    const std::vector<std::byte> value(ballast);
    if (ballast > 0) rows.put(XattrRow{Ino{number}, "user.x", value});
    MutexLock lock(mutex_);
    if (numbers_.erase(number) == 0) {
      numbers_.insert(number);
      rows.put_orphan(Ino{number});
    } else {
      rows.erase_orphan(Ino{number});
    }
    history_.push_back(number);
    journal.append(rows);
  }
  std::set<uint64_t> numbers() const {
    MutexLock lock(mutex_);
    return numbers_;
  }
  // After the first `transactions` of all.
  std::set<uint64_t> numbers_after(size_t transactions) const {
    MutexLock lock(mutex_);
    std::set<uint64_t> numbers;
    for (size_t i = 0; i < transactions; ++i) {
      if (numbers.erase(history_[i]) == 0) numbers.insert(history_[i]);
    }
    return numbers;
  }
  // What comes back after a crash is how it is now.
  void forget_beyond(size_t transactions) {
    const std::set<uint64_t> numbers = numbers_after(transactions);
    MutexLock lock(mutex_);
    numbers_ = numbers;
    history_.resize(transactions);
  }
  size_t transactions() const {
    MutexLock lock(mutex_);
    return history_.size();
  }
  // The first number above `number`.
  std::optional<uint64_t> after(uint64_t number) const {
    MutexLock lock(mutex_);
    const auto it = numbers_.upper_bound(number);
    return it == numbers_.end() ? std::nullopt : std::optional(*it);
  }

 private:
  mutable Mutex mutex_;
  std::set<uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> history_ ABSL_GUARDED_BY(mutex_);
};

// Number by number, so that what changes meanwhile makes the checkpoint fuzzy.
class Scan final : public RowSource {
 public:
  explicit Scan(const NumberSet& tree) : tree_(tree) {}
  bool next(Transaction& out, size_t) override {
    for (int i = 0; i < 50; ++i) {
      const auto number = tree_.after(last_);
      if (!number) return false;
      out.put_orphan(Ino{*number});
      last_ = *number;
    }
    return true;
  }

 private:
  const NumberSet& tree_;
  uint64_t last_ = 0;
};

class Loader final : public RowVisitor {
 public:
  std::set<uint64_t> numbers;
  Status put_orphan(Ino ino) override { return numbers.insert(raw(ino)), Status(); }
  Status erase_orphan(Ino ino) override { return numbers.erase(raw(ino)), Status(); }
  Status put(const InodeRow&) override { return kNever; }
  Status put(const DirentRow&) override { return kNever; }
  Status put(const ExtentRow&) override { return kNever; }
  Status put(const XattrRow&) override { return {}; }
  Status put(const MemberRow&) override { return kNever; }
  Status put(const ReplyRow&) override { return kNever; }
  Status erase_member(uint64_t) override { return kNever; }
  Status erase_inode(Ino) override { return kNever; }
  Status erase_dirent(Ino, std::string_view) override { return kNever; }
  Status erase_extents(Ino, uint64_t, uint64_t) override { return kNever; }
  Status erase_xattr(Ino, std::string_view) override { return kNever; }

 private:
  static constexpr Error kNever{EUCLEAN, "no such row was written"};
};

// A volume with a superblock, mounted and crashed again and again.
struct CheckpointBed {
  explicit CheckpointBed(Durability durability, uint64_t capacity_blocks = 64)
      : medium(std::make_shared<ModelMedium>(durability, capacity_blocks)), volume(open_model_volume(medium)) {
    EXPECT_TRUE(volume->alloc({BlockAddress{0}, 2}).ok());
    EXPECT_TRUE(volume->commit().ok());
    SuperblockSlots slots(*volume);
    EXPECT_TRUE(slots.read().ok());
    Superblock superblock = new_superblock("");
    superblock.journal_block = BlockAddress{kBlockBytes};
    EXPECT_TRUE(slots.write(superblock).ok());
  }
  ~CheckpointBed() { abandon(); }
  CheckpointBed(const CheckpointBed&) = delete;
  CheckpointBed& operator=(const CheckpointBed&) = delete;

  void abandon() {
    if (volume) volume->interrupt();
    if (checkpoints) checkpoints->stop();
    journal.reset();  // its thread tells `checkpoints` until it ends
    checkpoints.reset();
    space.reset();
    volume.reset();
  }
  // What is on the volume, with the LSN behind it.
  void recover() {
    slots = std::make_unique<SuperblockSlots>(*volume);
    const auto read = slots->read();
    ASSERT_TRUE(read.ok());
    ASSERT_EQ(read->kind, SuperblockRead::Kind::kValid) << read->why;
    superblock = read->superblock;
    std::string why;
    loader = {};
    ASSERT_TRUE(read_checkpoint(*volume, superblock.checkpoint, superblock.seed(), *volume->list(), loader, {},
                                [&why](std::string damage) { why = std::move(damage); })
                    .ok());
    ASSERT_EQ(why, "");
    const auto found = read_journal(*volume, superblock.seed(), superblock.replay_from, superblock.journal_block,
                                    *volume->list(), loader);
    ASSERT_TRUE(found.ok());
    ASSERT_EQ(found->damage, "");
    end = *found;
  }
  Status start() {
    std::vector<BlockRange> kept = superblock.checkpoint.runs;
    kept.push_back(kSuperblockBlock);
    for (const BlockAddress block : end.chain) kept.push_back({block, 1});
    kept.push_back({end.fresh, 1});
    TRY(volume->settle({}, kept, {}));
    space = std::make_unique<Space>(*volume);
    for (const BlockRange& blocks : kept) TRY(space->adopt_metadata(blocks));
    const auto is_kept = [&](BlockAddress block) {
      return std::any_of(kept.begin(), kept.end(),
                         [&](const BlockRange& range) { return block >= range.start && block < range.end(); });
    };
    for (const BlockRange& range : TRY(volume->list())) {
      for (uint64_t i = 0; i < range.count; ++i) {
        if (!is_kept(block_after(range.start, i))) TRY(volume->free({block_after(range.start, i), 1}));
      }
    }
    std::sort(kept.begin(), kept.end(), [](const BlockRange& a, const BlockRange& b) { return a.start < b.start; });
    journal = std::make_unique<Journal>(*volume, *space);
    checkpoints = std::make_unique<CheckpointThread>(
        CheckpointThread::Parts{*volume, *space, *journal, [this] { return std::make_unique<Scan>(tree); },
                                [] { return Ino{1000}; }, read_times},
        *slots, superblock);
    TRY(space->start(
        kept, {},
        {[this] { return journal->durable(); }, [this](const Interruption* by) { return journal->sync(by); }}));
    return journal->start(superblock.seed(), end,
                          {[this](Lsn lsn) { space->on_durable(lsn); }, [this] { checkpoints->journal_grew(); }});
  }
  void mount() {
    recover();
    ASSERT_EQ(loader.numbers, tree.numbers());
    ASSERT_TRUE(start().ok());
  }

  std::shared_ptr<ModelMedium> medium;
  NumberSet tree;
  std::unique_ptr<VolumeSet> volume;
  std::unique_ptr<SuperblockSlots> slots;
  Superblock superblock;
  Loader loader;
  JournalEnd end;
  std::unique_ptr<Space> space;
  ReadTimes read_times;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<CheckpointThread> checkpoints;
};

TEST(CheckpointThread, TakesThePlaceOfTheJournal) {
  CheckpointBed bed(Durability::kDurable);
  bed.mount();
  for (uint64_t i = 1; i <= 500; ++i) bed.tree.toggle(*bed.journal, i);
  ASSERT_TRUE(bed.checkpoints->run().ok());
  const uint64_t operations = bed.medium->operations();
  EXPECT_TRUE(bed.checkpoints->run().ok());  // nothing to do
  EXPECT_EQ(bed.medium->operations(), operations);
  for (uint64_t i = 400; i <= 600; ++i) bed.tree.toggle(*bed.journal, i);
  ASSERT_TRUE(bed.journal->sync().ok());
  bed.abandon();
  bed.volume = open_model_volume(bed.medium);
  bed.mount();
  EXPECT_EQ(bed.superblock.checkpoint.rows, 500u);
  EXPECT_EQ(bed.superblock.replay_from, Lsn{501});
  EXPECT_EQ(bed.superblock.next_ino, Ino{1000});
  EXPECT_EQ(bed.end.transactions, 201u);
  EXPECT_EQ(bed.end.next, Lsn{702});
}

TEST(CheckpointThread, AQuietVolumeAlwaysHasTheSameBlocks) {
  CheckpointBed bed(Durability::kDurable);
  bed.mount();
  bed.checkpoints->start();
  ASSERT_TRUE(bed.space->trim().ok());
  const uint64_t blocks = bed.medium->blocks();
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 1; i <= 600; ++i) {
      ASSERT_TRUE(bed.journal->admit().ok());
      bed.tree.toggle(*bed.journal, 1 + i % 100, 10'000);
    }
    ASSERT_TRUE(bed.checkpoints->run().ok());
    ASSERT_TRUE(bed.space->trim().ok());
    EXPECT_EQ(bed.medium->blocks(), blocks);
    bed.tree.toggle(*bed.journal, 1);
    ASSERT_TRUE(bed.journal->sync().ok());
    EXPECT_EQ(bed.medium->blocks(), blocks);
  }
}

TEST(CheckpointThread, ComesByItselfWhenIdle) {
  CheckpointBed bed(Durability::kVolatile);
  bed.mount();
  bed.checkpoints->start();
  for (uint64_t i = 1; i <= 600; ++i) bed.tree.toggle(*bed.journal, 1 + i % 100, 10'000);
  ASSERT_TRUE(bed.journal->sync().ok());
  for (int i = 0; i < 500 && bed.journal->chain_blocks() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(bed.journal->chain_blocks(), 1u);
}

TEST(CheckpointThread, AFailureLeavesTheFormerStateInForce) {
  CheckpointBed bed(Durability::kVolatile);
  bed.mount();
  for (uint64_t i = 1; i <= 100; ++i) bed.tree.toggle(*bed.journal, i);
  ASSERT_TRUE(bed.checkpoints->run().ok());
  ASSERT_TRUE(bed.space->trim().ok());
  bed.tree.toggle(*bed.journal, 7);
  ASSERT_TRUE(bed.journal->sync().ok());
  bed.medium->fail_with(EIO);
  EXPECT_EQ(bed.checkpoints->run().code(), EIO);
  bed.medium->fail_with(0);
  bed.tree.toggle(*bed.journal, 8);
  EXPECT_TRUE(bed.checkpoints->run().ok());
  bed.checkpoints->stop();
  EXPECT_EQ(bed.checkpoints->run().code(), ECANCELED);
  bed.abandon();
  bed.volume = open_model_volume(bed.medium);
  bed.mount();
}

// Data has taken all it can get; names can still be changed for ever.
TEST(CheckpointThread, GoesOnOnAFullVolume) {
  for (const uint64_t capacity : {16, 40, 130, 200, 400}) {
    CheckpointBed bed(Durability::kDurable, capacity);
    bed.mount();
    bed.checkpoints->start();
    while (bed.space->allocate(kUnitsPerBlock, 0).ok()) {
    }
    while (bed.space->allocate(1, 0).ok()) {
    }
    for (uint64_t i = 1; i <= 3'000; ++i) {
      const Status status = bed.journal->admit();
      ASSERT_TRUE(status.ok()) << "capacity " << capacity << ", change " << i << ", chain "
                               << bed.journal->chain_blocks();
      bed.tree.toggle(*bed.journal, 1 + i % 100, 10'000);
      if (i % 100 == 0) {
        ASSERT_TRUE(bed.journal->sync().ok()) << "capacity " << capacity << ", change " << i << ", chain "
                                              << bed.journal->chain_blocks() << ", blocks " << bed.medium->blocks();
      }
    }
  }
}

// Changes go on while checkpoints are written; the client dies at some operation, at times the brick with it.
void crash_again_and_again(uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto durability = random() % 3 == 0 ? Durability::kVolatile : Durability::kDurable;
  CheckpointBed bed(durability);
  for (int crash = 0; crash < 6; ++crash) {
    bed.mount();
    if (::testing::Test::HasFatalFailure()) return;
    for (int i = 0; i < 300; ++i) bed.tree.toggle(*bed.journal, 1 + random() % 1000);
    ASSERT_TRUE(bed.journal->sync().ok());
    const size_t synced = bed.tree.transactions();
    bed.medium->stop_client_at(1 + random() % 40, random());
    std::thread changes([&, own = std::mt19937_64(random())]() mutable {
      while (!bed.medium->client_stopped()) {
        for (int i = 0; i < 10; ++i) bed.tree.toggle(*bed.journal, 1 + own() % 1000);
        if (own() % 4 == 0) static_cast<void>(bed.journal->sync());
      }
    });
    while (!bed.medium->client_stopped()) static_cast<void>(bed.checkpoints->run());
    changes.join();
    bed.abandon();
    if (durability == Durability::kDurable && random() % 2 == 0) bed.medium->crash_brick(random());
    bed.volume = open_model_volume(bed.medium);
    bed.recover();
    if (::testing::Test::HasFatalFailure()) return;
    const size_t found = raw(bed.end.next) - 1;
    ASSERT_GE(found, synced) << "crash " << crash;
    ASSERT_LE(found, bed.tree.transactions());
    bed.tree.forget_beyond(found);
    ASSERT_EQ(bed.loader.numbers, bed.tree.numbers()) << "crash " << crash;
  }
}

TEST(CheckpointThread, EveryCrashLeavesAStateThatWas) {
  const uint64_t seed = std::random_device{}();
  for (uint64_t round = 0; round < 6 && !::testing::Test::HasFatalFailure(); ++round)
    crash_again_and_again(seed + round);
}

}  // namespace
}  // namespace brickfs
